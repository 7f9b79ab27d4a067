package cli

import (
	"errors"
	"strings"
	"testing"
)

// Names and messages come from etcd and from other machines: none reaches a terminal raw.
func TestForeignTextIsEscaped(t *testing.T) {
	const evil = "x\x1b]0;owned\a\r\n\u009b2J"
	var out, words strings.Builder
	p := printer{out: &out, words: &words, terminal: true, colour: true}
	if err := p.line("%s %v %q", evil, errors.New(evil), "fine"); err != nil {
		t.Fatal(err)
	}
	p.say("%s", evil)
	if err := p.table([][]string{{"NODE", "STATE"}, {evil, "running"}}); err != nil {
		t.Fatal(err)
	}
	report(&words, fail(Failed, "%s", evil).because("%s", evil).cure("%s", evil), false)
	if !strings.Contains(out.String(), "\x1b[32mrunning\x1b[0m") {
		t.Errorf("our own colours are gone: %q", &out)
	}
	all := strings.ReplaceAll(strings.ReplaceAll(out.String()+words.String(), "\x1b[32m", ""), "\x1b[0m", "")
	if i := strings.IndexFunc(all, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) }); i >= 0 {
		t.Errorf("raw: %q", all[i:])
	}
	if n := strings.Count(all, "\n"); n != 7 {
		t.Errorf("%d lines, want 7: %q", n, all)
	}
}

// FuzzCommandLine reads any command line, and answers each that it refuses with a code.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{"run\n--np=2:4\n--\ntrue", "scale\n+1", "status\n-o\njson", "--np\n4\nscale", "ckpt\nget\n3\ndir", "-\n--\n-x=\x00"} {
		f.Add(line)
	}
	table := commands()
	f.Fuzz(func(t *testing.T, line string) {
		if _, err := normalise(strings.Split(line, "\n"), table); err != nil && Known(err).Status == 0 {
			t.Errorf("%q is refused with status 0: %v", line, err)
		}
	})
}
