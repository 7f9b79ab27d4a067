package capture

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

var (
	digits   = regexp.MustCompile(`\d+`)
	stepName = regexp.MustCompile(
		`(?i)(?:^|[^a-z])(?:global_?step|steps?|iter|iterations?|checkpoint|ckpt)[-_=]?(\d+)`)
	countName = regexp.MustCompile(
		`(?i)(?:(?:^|[^a-z])(?:global_?step|steps?|iter|iterations?|checkpoint|ckpt|epochs?)[-_=]?|^)(\d+)`)
	trackedDir = regexp.MustCompile(`^(?:iter_\d{7}|global_step\d+)$`)
	tmpName    = regexp.MustCompile(`(?i)(?:^|[._-])(?:tmp|temp)(?:[._-]|\d|$)`)
)

// trackers are the files in which Megatron and DeepSpeed name the newest complete directory.
var trackers = map[string]bool{"latest_checkpointed_iteration.txt": true, "latest": true}

// passing reports whether a name is temporary: programs write a file under it, and rename it later.
func passing(name string) bool {
	if name == markFile || name == ".metadata" {
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

// ignored reports whether a file or directory of that name never belongs to a save: hidden names,
// temporary names, and the logs of frameworks.
func ignored(name string) bool {
	switch name {
	case "runs", "log", "logs", "lightning_logs", "wandb", "mlruns", "tensorboard", "tb_logs",
		"__pycache__", "nohup.out":
		return true
	}
	switch path.Ext(name) {
	case ".log", ".jsonl":
		return true
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "events.out.tfevents") || passing(name)
}

// parse reads a number. It reports false if the number does not fit.
func parse(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
