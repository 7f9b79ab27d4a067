package machine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false,
	"write what happens into the stories; commit it only if you understand the difference")

// TestStories replays testdata/*.txt: one agent, which learns event by event, and what it
// then does. A block is a few lines that say what happens, "----", and the transcript, up to an
// empty line:
//
//	do   what it does: a request, a word to its workers, to its peers
//	say  what its user reads
//	am   the state that it is in, in the words of docs/PROTOCOL.md, section 5
//
// The lines before "----" are read in teller_test.go.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, file, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("%s differs (go test ./internal/agent/machine -run TestStories -rewrite writes it "+
					"anew):\n%s",
					file, difference(string(text), got))
			}
		})
	}
}

// replay returns text with the present transcripts.
func replay(t *testing.T, file, text string) string {
	var out strings.Builder
	node := newTeller()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		switch {
		case line == "----":
			out.WriteString(node.transcript())
			for i+1 < len(lines) && lines[i+1] != "" {
				i++ // what it was
			}
		case line != "" && !strings.HasPrefix(line, "#"):
			if err := node.line(line); err != nil {
				t.Errorf("%s:%d: %s: %v", file, i+1, line, err)
			}
		}
	}
	return out.String()
}

// difference returns the first lines that differ, with the lines before them.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i < len(w) && i < len(g) && w[i] == g[i] {
			continue
		}
		var b strings.Builder
		for k := max(0, i-8); k < i; k++ {
			b.WriteString("  " + w[k] + "\n")
		}
		for k := i; k < min(len(w), i+6); k++ {
			b.WriteString("- " + w[k] + "\n")
		}
		for k := i; k < min(len(g), i+6); k++ {
			b.WriteString("+ " + g[k] + "\n")
		}
		return fmt.Sprintf("line %d:\n%s", i+1, b.String())
	}
	return ""
}

// begin is the time at which every story begins.
var begin = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
