package output

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	consoleQueue = 32 << 20
	// consolePatience is how long workers may wait for a slow console, until it has shown all its
	// output again. A program that reads along (| tee) can keep up with a burst. A stopped pager
	// delays the workers by no more than this.
	consolePatience = time.Second
)

// console shows the output of workers. If it is too slow it drops output, and later reports how
// much. The logs have all of it.
type console struct {
	w      io.Writer
	notice func(string)
	done   chan struct{} // run has ended

	mu       sync.Mutex
	queue    [][]byte
	size     int           // bytes in queue
	changed  chan struct{} // closed and replaced at each change of the fields above and below
	patience time.Duration // how long show may still wait
	dropped  int64         // bytes of the current gap; 0: none
	broken   bool          // w failed
	closed   bool
}

func newConsole(w io.Writer, notice func(string)) *console {
	c := &console{w: w, notice: notice, done: make(chan struct{}), changed: make(chan struct{}),
		patience: consolePatience}
	go c.run()
	return c
}

// show queues p. The caller must not use p afterwards.
func (c *console) show(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.size > 0 && c.size+len(p) > consoleQueue && c.patience > 0 && c.dropped == 0 && !c.broken {
		changed := c.changed
		c.mu.Unlock()
		began := time.Now()
		select {
		case <-changed:
		case <-time.After(c.patience):
		}
		waited := time.Since(began)
		c.mu.Lock()
		c.patience -= waited
	}
	switch {
	case c.broken:
	case c.dropped > 0 || c.size > 0 && c.size+len(p) > consoleQueue:
		c.dropped += int64(len(p))
	default:
		c.queue = append(c.queue, p)
		c.size += len(p)
		c.change()
	}
}

func (c *console) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// run writes the queue until close, or until w fails.
func (c *console) run() {
	defer close(c.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.queue) == 0 {
			if c.closed {
				return
			}
			changed := c.changed
			c.mu.Unlock()
			<-changed
			c.mu.Lock()
		}
		p := c.queue[0]
		c.mu.Unlock()
		_, err := c.w.Write(p)
		c.mu.Lock()
		if err != nil {
			c.broken, c.queue, c.size = true, nil, 0
			c.change()
			c.notice(fmt.Sprintf("cannot show the output of workers any more: %v; it is in the logs", err))
			return
		}
		c.queue[0] = nil
		c.queue, c.size = c.queue[1:], c.size-len(p)
		if c.size == 0 {
			if c.dropped > 0 {
				c.notice(fmt.Sprintf("%d bytes of worker output were not shown here, the console did "+
					"not take them; they are in the logs", c.dropped))
			}
			c.dropped, c.patience = 0, consolePatience
		}
		c.change()
	}
}

// close waits until all output is shown, or until ctx ends. In that case run is left in a write
// that cannot be interrupted.
func (c *console) close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.change()
	c.mu.Unlock()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("show the output of workers: %w", context.Cause(ctx))
	}
}
