package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
)

// printed is the stdout of a command line that succeeds.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, words bytes.Buffer
	if status := Main(command.App{Stdout: &out, Stderr: &words, Getenv: func(string) string { return "" }},
		args); status != 0 {
		t.Fatalf("elastic %s ends with %d: %s", strings.Join(args, " "), status, &words)
	}
	return out.Bytes()
}

// How each shell shows what it would complete. The script is $1, the command line the rest.
const (
	inBash = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_elastic; printf '%s\n' "${COMPREPLY[@]}"`
	inFish = `source $argv[1]; complete -C "$argv[2..-1]" | string replace -r '\t.*' ''`
	// A zsh of its own in a pseudo-terminal gets the line and a tab, and its screen is read until
	// the line is there.
	inZsh = `zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z "PROMPT=; autoload -Uz compinit; compinit -u -D; source $1; echo REA''DY"
screen=
while [[ $screen != *READY* ]]; do zpty -r -t z chunk && screen+=$chunk || sleep 0.02; done
zpty -w -n z "${*[2,-1]}"$'\t'
while [[ $screen != *"$WANT"* ]]; do zpty -r -t z chunk && screen+=$chunk || sleep 0.02; done
print -r -- "$WANT"
zpty -d z`
)

// A real shell completes what the script of the table says.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if err := os.WriteFile(filepath.Join(dir, shell), printed(t, "completion", shell),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "subdir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"host/nodes/a/jobs/llama-7b", "host/nodes/b/jobs/llama-7b~0123",
		"other/nodes/a/jobs/llama-7b", "host/nodes/a/jobs/mnist"} {
		if err := os.MkdirAll(filepath.Join(dir, ".local/state/elastic", job), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line, want string
		zsh        bool
	}{
		{"elastic ru", "run", true},
		{"elastic run --scal", "--scaling", true},
		{"elastic run --numa-binding=no", "node", true},
		{"elastic run --np 2 --virt", "--virtual-local-rank", false},
		{"elastic run --nproc_per_node 2 tra", "train.py", false},
		{"elastic status --wat", "--watch", false},
		{"elastic run --np 2 train.py --sc", "", false},
		{"elastic run --server=h:1 --master h:2 tra", "train.py", true},
		{"elastic run --no-python=fa", "false", false},
		{"elastic run --cacert=tra", "train.py", true},
		{"elastic --checkpoint-dir sub", "subdir", false},
		{"elastic -q sta", "status", true},
		{"elastic stop llam", "llama-7b", true},
		{"elastic restart llama-7b~", "", false},
		{"elastic events --job-id llam", "llama-7b", false},
	} {
		t.Run(c.line, func(t *testing.T) {
			words := strings.Fields(c.line)
			got := shown(t, dir, c.want, "bash", append([]string{"--norc", "-c", inBash, "_", "./bash"},
				bashWords(words)...)...)
			if c.want == "" && strings.TrimSpace(got) != "" ||
				!slices.Contains(strings.Split(got, "\n"), c.want) {
				t.Errorf("bash completes %q, want %q", got, c.want)
			}
			got = shown(t, dir, c.want, "fish", append([]string{"-N", "-c", inFish, "./fish"}, words...)...)
			lines := strings.Split(regexp.MustCompile(`(?m)^--[a-z-]+=|/$`).ReplaceAllString(got, ""), "\n")
			if c.want == "" && strings.TrimSpace(got) != "" || !slices.Contains(lines, c.want) {
				t.Errorf("fish completes %q, want %q", got, c.want)
			}
			if c.zsh {
				shown(t, dir, c.want, "zsh", append([]string{"-f", "-c", inZsh, "_", "./zsh"}, words...)...)
			}
		})
	}
}

// bashWords splits at = and : as bash does before it calls a completion.
func bashWords(words []string) []string {
	return strings.Fields(strings.NewReplacer("=", " = ", ":", " : ").Replace(strings.Join(words, " ")))
}

// shown runs a shell in dir and returns what it prints.
func shown(t *testing.T, dir, want, shell string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WANT="+want, "HOME="+dir, "TERM=dumb", "XDG_STATE_HOME=", "ELASTIC_STATE_DIR=",
		"PADDLE_ELASTIC_STATE_DIR=")
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil && ctx.Err() != nil {
		t.Errorf("%s does not complete %q within a minute", shell, want)
	}
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatalf("%s: %v: %s", shell, err, &said)
	}
	return string(out)
}

func TestCompletionOfUnknownShell(t *testing.T) {
	var words bytes.Buffer
	app := command.App{Stdout: io.Discard, Stderr: &words, Getenv: func(string) string { return "" }}
	if status := Main(app, []string{"completion", "tcsh"}); status != 2 ||
		!strings.Contains(words.String(), "no completion for tcsh [E-USAGE]") {
		t.Errorf("status %d: %s", status, &words)
	}
}

// Every flag that help shows is in the manual page, and no text of ours is taken for a request of
// roff.
func TestMan(t *testing.T) {
	page := string(printed(t, "man"))
	for _, c := range commands() {
		for _, f := range c.All() {
			if !strings.Contains(page, ".B "+strings.ReplaceAll("--"+f.Name, "-", `\-`)) && f.Short == "" {
				t.Errorf("--%s of elastic %s is not in the page", f.Name, c.Name)
			}
		}
	}
	known := []string{".TH", ".SH", ".SS", ".TP", ".B", ".BR", ".I", ".IR", ".br", ".PP"}
	for i, line := range strings.Split(page, "\n") {
		macro, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(line, ".") && !slices.Contains(known, macro) || strings.HasPrefix(line, "'") {
			t.Errorf("line %d is a request: %s", i+1, line)
		}
	}
	if i := strings.IndexFunc(page, func(r rune) bool { return r > '~' }); i >= 0 {
		t.Errorf("not ASCII: %q", page[i:i+20])
	}
}
