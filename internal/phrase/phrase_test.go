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
