package screen_test

import (
	"testing"

	"github.com/elasticd/elastic/internal/cli/screen"
)

func TestFold(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"elastic: short", 20, "elastic: short"},
		{"elastic: no terminal, and so it stays on one line", 0,
			"elastic: no terminal, and so it stays on one line"},
		{"elastic: waiting for 1 more node", 20, "elastic: waiting for\n         1 more node"},
		{"elastic: exactly ten", 20, "elastic: exactly ten"},
		{"elastic: /a/path/that/is/too/long and more", 20,
			"elastic: /a/path/that/is/too/long\n         and more"},
		{"  why: two  spaces stay where the line does not break", 30,
			"  why: two  spaces stay where\n         the line does not\n         break"},
		{"elastic: für wörter über alles", 20, "elastic: für wörter\n         über alles"},
		{"elastic: narrow", 5, "elastic: narrow"},
	} {
		if got := screen.Fold(c.text, c.columns, 9); got != c.want {
			t.Errorf("%d columns: %q, want %q", c.columns, got, c.want)
		}
	}
}
