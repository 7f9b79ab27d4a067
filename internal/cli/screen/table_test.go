package screen_test

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/cli/screen"
)

// A table fits the terminal: if the last column has no room, it is written below its row.
func TestTable(t *testing.T) {
	rows := func() [][]string {
		return [][]string{
			{"NODE", "STATE", "WHY"},
			{"a", "running", ""},
			{"lab1-2", "quarantined",
				"rank 1 ended with exit code 2; until it runs another program, or: elastic admit lab1-2"},
			{"b", "lost", "agent gone"},
			{"wörter", "lost", strings.Repeat("ü", 45)},
			{"long", "lost", strings.Repeat("word ", 40)},
		}
	}
	for columns, want := range map[int]string{
		40: `
NODE    STATE        WHY
a       running
lab1-2  quarantined
        rank 1 ended with exit code 2;
        until it runs another program,
        or: elastic admit lab1-2
b       lost         agent gone
wörter  lost
        üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü
        üüüüüüüüüüüüü
long    lost
        word word word word word word
        word word word word word word
        word word word word word word w…
`,
		14: `
NODE    STATE
    WHY
a       runni…
lab1-2  quara…
    rank 1
    ended with
    exit code…
b       lost
    agent gone
wörter  lost
    üüüüüüüüüü
    üüüüüüüüüü
    üüüüüüüüü…
long    lost
    word word
    word word
    word word…
`,
	} {
		var out strings.Builder
		p := screen.Printer{Out: &out, Width: columns}
		if err := p.Table(rows()); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + out.String(); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", columns, got, want)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
				t.Errorf("%d columns: a line of %d: %s", columns, n, line)
			}
		}
	}
}
