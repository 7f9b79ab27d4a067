// Package files says what the kernel knows about files: which names in a directory tree were written,
// closed, renamed or removed, and which files processes have open for writing.
package files

import (
	"path"
	"regexp"
	"strings"
)

// Mark is the file in a directory that says that a save is complete.
const Mark = ".elastic-commit"

var tmpName = regexp.MustCompile(`(?i)(?:^|[._-])(?:tmp|temp)(?:[._-]|\d|$)`)

// Passing reports whether a name is temporary: programs write a file under it, and rename it later.
func Passing(name string) bool {
	if name == Mark || name == ".metadata" {
		return false
	}
	switch path.Ext(name) {
	case ".part", ".partial", ".incomplete", ".swp", ".lock":
		return true
	}
	return strings.HasSuffix(name, "~") || strings.HasPrefix(name, "tmp") ||
		strings.HasPrefix(name, ".nfs") || strings.HasPrefix(name, ".#") ||
		strings.Contains(strings.ToLower(name), "mp") && tmpName.MatchString(name)
}

// Ignored reports whether a file or directory of that name never belongs to a save: hidden names,
// temporary names, and the logs of frameworks.
func Ignored(name string) bool {
	switch name {
	case "runs", "log", "logs", "lightning_logs", "wandb", "mlruns", "tensorboard", "tb_logs",
		"__pycache__", "nohup.out":
		return true
	}
	switch path.Ext(name) {
	case ".log", ".jsonl":
		return true
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "events.out.tfevents") || Passing(name)
}
