package node

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/elasticd/elastic/internal/agent/message"
)

func TestOutputDoesNotWaitForAStoppedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // never read
		tell := newTeller(w)
		for k := range 2 * queued {
			tell.say(message.Line{Text: fmt.Sprint(k)}) // a wait would end the bubble in a deadlock
		}
		tell.close()
		tell.say(message.Line{Text: "late"})
		r.Close()
	})
}

func TestTheLastLinesAreWritten(t *testing.T) {
	var b strings.Builder
	tell := newTeller(&b)
	tell.say(message.Line{Text: "one"})
	tell.say(message.Line{Text: "ABORT!!!", Raw: true})
	tell.close()
	if got, want := b.String(), "elastic: one\nABORT!!!\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Lines have names of nodes and output of workers on other machines. Control characters in them are
// escaped.
func TestControlCharactersOfOthersAreEscaped(t *testing.T) {
	var b strings.Builder
	tell := newTeller(&b)
	for _, raw := range []bool{false, true} {
		tell.say(message.Line{Text: "x\x1b]0;owned\a\r\n\u009b2J", Raw: raw})
	}
	tell.close()
	got := b.String()
	if strings.ContainsAny(got, "\x1b\a\r\u009b") || strings.Count(got, "\n") != 2 {
		t.Errorf("%q", got)
	}
}
