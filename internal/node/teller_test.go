package node

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/elasticd/elastic/internal/agent/action"
)

func TestTellingDoesNotWaitForAStoppedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // nobody reads
		tell := newTeller(w)
		for k := range 2 * queued {
			tell.say(action.Line{Text: fmt.Sprint(k)}) // a wait would end the bubble in a deadlock
		}
		tell.close()
		tell.say(action.Line{Text: "late"})
		r.Close()
	})
}

func TestTheLastLinesAreWritten(t *testing.T) {
	var b strings.Builder
	tell := newTeller(&b)
	tell.say(action.Line{Text: "one"})
	tell.say(action.Line{Text: "ABORT!!!", Raw: true})
	tell.close()
	if got, want := b.String(), "elastic: one\nABORT!!!\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
