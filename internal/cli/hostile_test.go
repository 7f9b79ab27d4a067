package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/cli/command"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/problem"
)

// Names and messages come from etcd and from other machines: none reaches a terminal raw.
func TestForeignTextIsEscaped(t *testing.T) {
	const evil = "x\x1b]0;owned\a\r\n\u009b2J"
	var out, words strings.Builder
	p := screen.Printer{Out: &out, Words: &words, Terminal: true, Colour: true}
	if err := p.Line("%s %v %q", evil, errors.New(evil), "fine"); err != nil {
		t.Fatal(err)
	}
	p.Say("%s", evil)
	if err := p.Table([][]string{{"NODE", "STATE"}, {evil, "running"}}); err != nil {
		t.Fatal(err)
	}
	screen.Report(&words, problem.New(problem.Failed, "%s", evil).Because("%s", evil).Cure("%s", evil))
	if !strings.Contains(out.String(), "\x1b[32mrunning\x1b[0m") {
		t.Errorf("our own colours are gone: %q", &out)
	}
	all := strings.ReplaceAll(strings.ReplaceAll(out.String()+words.String(), "\x1b[32m", ""), "\x1b[0m", "")
	if i := strings.IndexFunc(all, func(r rune) bool {
		return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0)
	}); i >= 0 {
		t.Errorf("raw: %q", all[i:])
	}
	if n := strings.Count(all, "\n"); n != 7 {
		t.Errorf("%d lines, want 7: %q", n, all)
	}
}

// FuzzCommandLine reads any command line, and answers each that it refuses with a code.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{"run\n--np=2:4\n--\ntrue", "scale\n+1", "status\n-o\njson",
		"--np\n4\nscale", "ckpt\nget\n3\ndir", "-\n--\n-x=\x00"} {
		f.Add(line)
	}
	table := commands()
	f.Fuzz(func(t *testing.T, line string) {
		_, err := command.Normalise(strings.Split(line, "\n"), table)
		if err != nil && screen.KnownProblem(err).Status == 0 {
			t.Errorf("%q is refused with status 0: %v", line, err)
		}
	})
}

// FuzzEnvironment runs a command with any values of the variables that it reads. Bad ones are reported
// as bad flags are.
func FuzzEnvironment(f *testing.F) {
	f.Add("ELASTIC_NP", "2:1", "PET_NNODES", "x")
	f.Add("PADDLE_TRAINERS", "a,,b", "POD_IP", "\x1b[2J")
	f.Add("ELASTIC_SERVER", "tcp://h:99999", "ELASTIC_CACERT", "\x00")
	var names []string
	for _, c := range commands() {
		for _, flag := range c.All() {
			names = append(names, flag.Env...)
		}
	}
	for i, n := range names {
		f.Add(n, "x", names[(i+1)%len(names)], "-1")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name, value, other, also string) {
		env := map[string]string{"ELASTIC_SERVER": "unix:///nonexistent/etcd.sock", "XDG_STATE_HOME": dir,
			"XDG_RUNTIME_DIR": dir, "HOME": dir, "PATH": dir}
		if name != "ELASTIC_SERVER" && other != "ELASTIC_SERVER" { // an address is not dialled
			env[name], env[other] = value, also
		}
		for _, line := range [][]string{{"plan", "--np=2", "--batch-size=8"},
			{"run", "nothing-of-that-name"}} {
			var out, words strings.Builder
			app := command.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &words,
				Getenv: func(k string) string { return env[k] }}
			if status := Main(app, line); status != 0 && !strings.Contains(words.String(), "[E-") {
				t.Errorf("%s=%q %s=%q: status %d, %q", name, value, other, also, status, &words)
			}
		}
	})
}
