package command

import "testing"

// A usage that is wider than the terminal continues in its own column.
func TestHelpFitsTheTerminal(t *testing.T) {
	text := "elastic logs [flags] [JOB]\n" +
		"  --first-failure              of the rank that failed first, in its last generation\n"
	want := "elastic logs [flags] [JOB]\n" +
		"  --first-failure              of the rank that failed first, in its last\n" +
		"                               generation\n"
	if got := fit(text, 80); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := fit(text, 0); got != text {
		t.Errorf("no terminal: %q", got)
	}
}
