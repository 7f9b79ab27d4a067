package node

import (
	"fmt"
	"io"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/phrase"
)

// teller writes lines for the user. It never blocks its caller: a stopped terminal, or a pager that
// does not read, must not stop the agent and its heartbeats.
type teller struct {
	lines chan string
	stop  chan struct{} // closed by close: write the queued lines, then end
	done  chan struct{} // closed when the last line is written
}

// queued is how many lines wait for a slow terminal before new ones are dropped.
const queued = 1000

// newTeller returns a teller that writes to w until close.
func newTeller(w io.Writer) *teller {
	t := &teller{lines: make(chan string, queued), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		for stop := t.stop; ; {
			select {
			case l := <-t.lines:
				fmt.Fprintln(w, l)
				continue
			default:
			}
			if stop == nil {
				return
			}
			select {
			case l := <-t.lines:
				fmt.Fprintln(w, l)
			case <-stop:
				stop = nil
			}
		}
	}()
	return t
}

// say queues a line. It drops the line if the queue is full.
func (t *teller) say(l message.Line) {
	text := phrase.Plain(l.Text) // node names and error texts of workers come from other machines
	if !l.Raw {
		text = "elastic: " + text
	}
	select {
	case t.lines <- text:
	default: // the line is dropped; the history has the event
	}
}

// close waits up to a second until the queued lines are written. Later lines are dropped.
func (t *teller) close() {
	close(t.stop)
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case <-t.done:
	case <-limit.C:
	}
}
