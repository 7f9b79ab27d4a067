package phrase_test

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/phrase"
)

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 nodes":      phrase.Count(0, "node"),
		"1 node":       phrase.Count(1, "node"),
		"2 copies":     phrase.Count(2, "copy"),
		"3 days":       phrase.Count(3, "day"),
		"2 more nodes": phrase.Count(2, "more node"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestList(t *testing.T) {
	nine := strings.Split("a b c d e f g h i", " ")
	for want, names := range map[string][]string{
		"":                                  nil,
		"a":                                 nine[:1],
		"a, b, c, d, e, f, g, h":            nine[:8],
		"a, b, c, d, e, f, g, h and 1 more": nine,
	} {
		if got := phrase.List(names); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"node-1 · 3 copies … ü 日本":     "node-1 · 3 copies … ü 日本",
		"\x1b[2J\x1b]0;owned\a":        `\x1b[2J\x1b]0;owned\x07`,
		"a\rb\x00c\x7f":                `a\x0db\x00c\x7f`,
		"\u009b31mred":                 `\x9b31mred`, // C1: one character that begins a sequence
		"\x9b31mred":                   `\x9b31mred`, // the same as a byte
		"x\nerror: fake [E-FAILED]":    `x\nerror: fake [E-FAILED]`,
		"\u202egnp.exe\u2066\u200b":    `\u202egnp.exe\u2066\u200b`,
		"line\u2028break":              `line\u2028break`,
		string([]byte{0xc3, 0x28}):     `\xc3(`,
		"\xef\xbf\xbd (a real U+FFFD)": "\ufffd (a real U+FFFD)",
	} {
		if got := phrase.Plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	long := strings.Repeat("x", 5000)
	want := "job " + long[:60] + "…(5000 characters)…" + long[:20] + " is none"
	if got := phrase.Brief("job " + long + " is none"); got != want {
		t.Errorf("got %q", got)
	}
	if path := "/" + strings.Repeat("d/", 140); phrase.Brief(path) != path {
		t.Errorf("a path is cut: %s", phrase.Brief(path))
	}
}
