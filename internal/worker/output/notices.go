package output

import (
	"context"
	"fmt"
	"sync"
)

// notices prints lines for callers that must not wait for a terminal.
type notices struct {
	queue chan string
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once // closes quit
}

func newNotices(tell func(string)) *notices {
	n := &notices{queue: make(chan string, 100), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for {
			select {
			case s := <-n.queue:
				tell(s)
				continue
			default:
			}
			select {
			case s := <-n.queue:
				tell(s)
			case <-n.quit:
				return
			}
		}
	}()
	return n
}

// say queues a line. It drops the line if the queue is full.
func (n *notices) say(s string) {
	select {
	case n.queue <- s:
	default:
	}
}

func (n *notices) close(ctx context.Context) error {
	n.once.Do(func() { close(n.quit) })
	select {
	case <-n.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("tell about logs: %w", context.Cause(ctx))
	}
}
