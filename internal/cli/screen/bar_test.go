package screen

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// shown is what a terminal shows after text: the lines, the last of which may be the bar.
func shown(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		cleared := strings.Split(line, eraseLine)
		lines = append(lines, cleared[len(cleared)-1])
	}
	return strings.Join(lines, "\n")
}

func TestBarStaysBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal strings.Builder
		b := NewBar(&terminal)
		out, words := b.Over(&terminal), b.Over(&terminal)
		write := func(w io.Writer, text string) {
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			do   func()
			want string
		}{
			{func() { write(words, "elastic: running\n") }, "elastic: running\n"},
			{func() { b.Set("10 %") }, "elastic: running\n10 %"},
			{func() { b.Set("20 %") }, "elastic: running\n20 %"},
			{func() { write(out, "epoch 1\n") }, "elastic: running\nepoch 1\n20 %"},
			{func() { write(out, "half a ") }, "elastic: running\nepoch 1\nhalf a "},
			{func() { b.Set("30 %") }, "elastic: running\nepoch 1\nhalf a "},
			{func() { write(out, "line\n") }, "elastic: running\nepoch 1\nhalf a line\n30 %"},
			{func() { b.Set("") }, "elastic: running\nepoch 1\nhalf a line\n"},
			{func() { b.Set("40 %") }, "elastic: running\nepoch 1\nhalf a line\n40 %"},
			{func() { b.Close() }, "elastic: running\nepoch 1\nhalf a line\n"},
			{func() { b.Set("50 %"); write(words, "elastic: done\n") },
				"elastic: running\nepoch 1\nhalf a line\nelastic: done\n"},
		} {
			c.do()
			synctest.Wait()
			if got := shown(terminal.String()); got != c.want {
				t.Fatalf("the terminal shows %q, want %q", got, c.want)
			}
		}
	})
}

// Text above the bar is written byte for byte.
func TestBarChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal, copied strings.Builder
		b := NewBar(&terminal)
		b.Set("bar")
		w := b.Over(io.MultiWriter(&terminal, &copied))
		var all strings.Builder
		for _, text := range []string{"a\n", "", "b", "\r50%|", "\r\x1b[2K60%\n", "\n\n", "ü\xff\n"} {
			all.WriteString(text)
			if n, err := io.WriteString(w, text); n != len(text) || err != nil {
				t.Errorf("%q: %d, %v", text, n, err)
			}
			synctest.Wait()
		}
		if copied.String() != all.String() {
			t.Errorf("%q, want %q", copied.String(), all.String())
		}
		b.Close()
	})
}

func TestBarDoesNotWaitForAStoppedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // nothing reads
		b := NewBar(w)
		for range 1000 {
			b.Set("text") // a wait would end the bubble in a deadlock
		}
		r.Close()
		b.Close()
	})
}
