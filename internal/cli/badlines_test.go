package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/node"
)

// badValues are no value of any flag but those that take any text.
var badValues = []string{"", "x", "-1", "1.5", "99999999999999999999", "../x", "1:2:3", "\x1b[2J"}

// directories are flags that make one of any name.
var directories = []string{"state-dir", "log-dir", "checkpoint-dir"}

// badLines are command lines that no command takes.
func badLines() (all [][]string) {
	for _, line := range []string{
		"frobnicate", "statsu", "--nosuch", "run", "run --", "run --np=2",
		"scale", "scale x", "scale x two", "scale x +0", "scale x 3 4", "scale --np=3 --if-np=x x",
		"admit", "admit a b", "ckpt", "ckpt frob", "ckpt get", "ckpt get x",
		"install", "install a b", "kube", "kube frob", "plan", "plan --np=2", "plan --batch-size=64",
		"ready", "ready x y", "certs x", "version x", "jobs x", "events a b", "status a b", "logs a b",
		"explain a b", "goodput a b", "stop a b", "rm a b", "nodes a b",
		"run --np=3:2 true", "run --np=0 true", "run --np=-1 true", "run --np=1:2:3 true",
		"run --np=2 --nnodes=x true", "run --node-rank=5 --np=2 true", "run --nproc-per-node=0 true",
		"run --batch-size=-5 true", "run --lr=nan true", "run --lr=inf true", "run --lr=-1 true",
		"run --worker-ports=5-1 true", "run --worker-ports=x true",
		"run --np=2 --ips=127.0.0.1,127.0.0.1 true", "run --devices=0,0 true",
	} {
		all = append(all, strings.Fields(line))
	}
	for _, c := range commands() {
		all = append(all, []string{c.Name, "--nosuch"}, []string{c.Name, "-Z"},
			[]string{c.Name, "-o", "yaml"}, []string{c.Name, "--output"})
		if c.Most >= 0 {
			all = append(all, append([]string{c.Name}, strings.Fields("z z z z z z")...))
		}
		for _, f := range c.All() {
			if f.Kind != command.Boolean {
				all = append(all, []string{c.Name, "--" + f.Name})
			} else {
				all = append(all, []string{c.Name, "--" + f.Name + "=perhaps"})
			}
			if c.Name != "run" && slices.ContainsFunc(command.Everywhere(),
				func(e command.Flag) bool { return e.Name == f.Name }) {
				continue // the same for every command
			}
			for _, v := range badValues {
				if f.Kind != command.Boolean && !slices.Contains(directories, f.Name) {
					all = append(all, []string{c.Name, "--" + f.Name + "=" + v, "nothing-of-that-name"})
				}
			}
		}
	}
	return all
}

var (
	firstLine = regexp.MustCompile(`^error: [^\x00-\x1f\x7f]+ \[(E-[A-Z]+(?:-[A-Z]+)*)\]$`)
	nextLines = regexp.MustCompile(`^  (why|fix): [^\x00-\x1f\x7f]+$`)
)

// Each bad line gets what, why and the fix, one code and its status, and changes nothing: not a
// file, and no server is asked. A value that is fine as far as the line tells gets as far as the
// server, which is not there.
func TestBadCommandLines(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	env := map[string]string{"ELASTIC_SERVER": "unix:///nonexistent/etcd.sock", "HOME": dir,
		"XDG_STATE_HOME": dir, "XDG_RUNTIME_DIR": dir, "PATH": dir}
	refused := 0
	for _, line := range badLines() {
		var out, words bytes.Buffer
		app := command.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &words,
			Getenv: func(k string) string { return env[k] },
			Run: func(context.Context, node.Options) message.Result {
				t.Errorf("%q runs a node", line)
				return message.Result{}
			}}
		status := Main(app, line)
		lines := strings.Split(strings.TrimSuffix(words.String(), "\n"), "\n")
		for len(lines) > 1 && strings.HasPrefix(lines[0], "elastic: ") {
			lines = lines[1:]
		}
		code := firstLine.FindStringSubmatch(lines[0])
		ofServer := []string{"E-SERVER", "E-SERVER-WRONG", "E-NO-SERVER", "E-TIMEOUT"}
		if status == 0 || code != nil && slices.Contains(ofServer, code[1]) {
			continue // nothing is wrong with the line itself
		}
		refused++
		if code == nil || len(lines) != 3 || !strings.HasPrefix(lines[1], "  why: ") ||
			!strings.HasPrefix(lines[2], "  fix: ") ||
			!nextLines.MatchString(lines[1]) || !nextLines.MatchString(lines[2]) || out.Len() > 0 {
			t.Errorf("elastic %q: status %d, stdout %q\n%s", line, status, &out, &words)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("elastic %q left %v", line, left)
			os.RemoveAll(left[0])
		}
	}
	t.Log(fmt.Sprint(refused, " lines are refused"))
	if refused < 313 {
		t.Errorf("%d lines are refused, want 313 or more", refused)
	}
}
