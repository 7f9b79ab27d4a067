package handover

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/elasticd/elastic/internal/scope"
)

// Why workers cannot be paused, or handed a World.
var (
	// ErrCannotStay: one of them has ended, or said that it cannot stay any more.
	ErrCannotStay = errors.New("a worker cannot stay")
	// ErrNotLeft: one of them still takes part in its generation.
	ErrNotLeft = errors.New("a worker has not left its generation")
)

// Group is the workers of one node, for as long as their processes live.
type Group struct {
	mu         sync.Mutex // guards what follows
	generation uint64
	workers    []workerState
	moved      chan struct{} // closed at the next change
	requests   *scope.Scope  // of the generation, to the store
	closed     bool
}

// workerState is what one worker said.
type workerState struct {
	conn net.Conn // nil: it is not connected
	can  bool
	left *left // of the generation at hand; nil: it takes part in it

	received Received // of the state of another rank, until it has all of it
}

// NewGroup returns a Group to which no worker connects.
func NewGroup(generation uint64, workers int) *Group {
	return &Group{generation: generation, workers: make([]workerState, workers), moved: make(chan struct{}),
		requests: new(scope.Scope)}
}

// Moved is closed when one of them says something new, connects or hangs up, and by Close.
func (g *Group) Moved() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.moved
}

// CanStay reports whether each worker is connected and said that it can take part in another
// generation.
func (g *Group) CanStay() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.canStay()
}

// canStay is CanStay. mu is held.
func (g *Group) canStay() bool {
	return !g.closed && !slices.ContainsFunc(g.workers, func(w workerState) bool { return !w.can })
}

// Received is how much of the state of another rank the workers have got that get one now.
func (g *Group) Received() (all Received) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.workers {
		if r := w.received; 0 <= r.Done && r.Done < r.Total {
			all.Done, all.Total = all.Done+r.Done, all.Total+r.Total
		}
	}
	return all
}

// changed has all waiting callers look again. mu is held.
func (g *Group) changed() {
	close(g.moved)
	g.moved = make(chan struct{})
}

// Close ends it: its connections, and what was asked of the store.
func (g *Group) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	g.requests.End()
	g.changed()
	for _, w := range g.workers {
		if w.conn != nil {
			w.conn.Close()
		}
	}
}

// Leave has the workers leave their generation, and ends what they ask of its store. It returns
// when each has said that it takes part in no collective of it any more. held is the least step
// that the state of one of them has come to; nil: one holds no state.
func (g *Group) Leave(ctx context.Context) (held *int64, err error) {
	if err := g.tellLeave(); err != nil {
		return nil, err
	}
	for {
		moved := g.Moved()
		all, held, err := g.left()
		if all || err != nil {
			return held, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Await returns when each worker has said that it waits for its first World. Workers that begin in
// no generation say so without being asked to leave one.
func (g *Group) Await(ctx context.Context) error {
	for {
		moved := g.Moved()
		all, closed := g.await()
		switch {
		case all:
			return nil
		case closed:
			return ErrCannotStay
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (g *Group) await() (all, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.ContainsFunc(g.workers, func(w workerState) bool { return !w.can || w.left == nil }), g.closed
}

func (g *Group) tellLeave() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.canStay() {
		return ErrCannotStay
	}
	for i := range g.workers {
		w := &g.workers[i]
		if err := say(w.conn, message{Leave: g.generation}); err != nil {
			g.drop(w)
			return fmt.Errorf("%w: %w", ErrCannotStay, err)
		}
	}
	g.requests.End()
	return nil
}

// left reports whether all workers have left the generation at hand, and the least step of their
// states; nil: one holds none.
func (g *Group) left() (all bool, held *int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.canStay() {
		return false, nil, ErrCannotStay
	}
	for i, w := range g.workers {
		switch {
		case w.left == nil:
			return false, nil, nil
		case w.left.Step == nil:
			held = nil
		case i == 0, held != nil && *w.left.Step < *held:
			held = w.left.Step
		}
	}
	return true, held, nil
}

// Hand hands the World of a newer generation to workers that have left theirs: the environment of
// each, by local rank. After an error some may have it, and all have to be ended.
func (g *Group) Hand(generation uint64, environ []map[string]string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.canStay():
		return ErrCannotStay
	case generation <= g.generation || len(environ) != len(g.workers):
		return fmt.Errorf("hand generation %d to %d workers of generation %d",
			generation, len(g.workers), g.generation)
	case slices.ContainsFunc(g.workers, func(w workerState) bool { return w.left == nil }):
		return ErrNotLeft
	}
	g.generation = generation
	g.requests = new(scope.Scope)
	for i := range g.workers {
		w := &g.workers[i]
		w.left = nil
		if err := say(w.conn, message{World: environ[i]}); err != nil {
			g.drop(w)
			return fmt.Errorf("%w: %w", ErrCannotStay, err)
		}
	}
	return nil
}

// drop forgets a worker whose connection ended. mu is held.
func (g *Group) drop(w *workerState) {
	if w.conn == nil {
		return
	}
	w.conn.Close()
	*w = workerState{}
	g.changed()
}

// serveWorker hears one worker until it hangs up.
func (g *Group) serveWorker(c net.Conn, in *bufio.Scanner, o opening) {
	if why := g.enter(c, o); why != "" {
		say(c, message{Refused: why})
		return
	}
	w := &g.workers[*o.LocalRank]
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.drop(w)
	}()
	for in.Scan() {
		var s said
		if err := json.Unmarshal(in.Bytes(), &s); err != nil {
			return
		}
		g.hear(w, s)
	}
}

// enter takes the connection of a worker; or says why not.
func (g *Group) enter(c net.Conn, o opening) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := *o.LocalRank
	switch {
	case g.closed || o.Generation != g.generation:
		return fmt.Sprintf("it is of generation %d, and generation %d is at hand", o.Generation, g.generation)
	case i < 0 || i >= len(g.workers):
		return fmt.Sprintf("there is no local rank %d", i)
	case g.workers[i].conn != nil:
		return fmt.Sprintf("local rank %d is connected already", i)
	}
	g.workers[i] = workerState{conn: c}
	return ""
}

// hear takes in what a worker said of this generation. What it says of another one is dropped.
func (g *Group) hear(w *workerState, s said) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.CanStay != nil {
		w.can = *s.CanStay
	}
	if s.Left != nil && s.Left.Generation == g.generation {
		w.left, w.received = s.Left, Received{}
	}
	if s.Received != nil {
		w.received = *s.Received
	}
	g.changed()
}
