package node

import (
	"slices"
	"testing"

	"github.com/elasticd/elastic/internal/agent/message"
)

func TestNoticesWaitForTheFirstLine(t *testing.T) {
	var said []string
	n := &notices{say: func(l message.Line) { said = append(said, l.Text) }}
	n.notice("one")
	n.notice("two")
	n.agent(message.Line{Text: "job x"})
	n.notice("three")
	n.agent(message.Line{Text: "done"})
	n.flush()
	if want := []string{"job x", "one", "two", "three", "done"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}
