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

// The reasons why workers cannot be paused, or moved to another world.
var (
	// ErrCannotStay means that a worker has ended, or can no longer stay.
	ErrCannotStay = errors.New("a worker cannot stay")
	// ErrNotLeft means that a worker still takes part in its generation.
	ErrNotLeft = errors.New("a worker has not left its generation")
)

// Group has the workers of one node, for as long as their processes live.
type Group struct {
	mu         sync.Mutex // guards what follows
	generation uint64
	workers    []workerState
	moved      chan struct{} // closed at the next change
	requests   *scope.Scope  // requests of this generation to the store
	closed     bool
}

// workerState is the last that one worker reported.
type workerState struct {
	conn net.Conn // nil: not connected
	can  bool
	left *left // nil: the worker takes part in the current generation

	received Received // bytes of another rank's state; zero when it is complete
}

// NewGroup returns a Group without connections.
func NewGroup(generation uint64, workers int) *Group {
	return &Group{generation: generation, workers: make([]workerState, workers), moved: make(chan struct{}),
		requests: new(scope.Scope)}
}

// Moved returns a channel that is closed at the next message, connect or disconnect of a worker,
// and by Close.
func (g *Group) Moved() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.moved
}

// CanStay reports whether all workers are connected and can take part in another generation.
func (g *Group) CanStay() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.canStay()
}

// canStay is CanStay. mu is held.
func (g *Group) canStay() bool {
	return !g.closed && !slices.ContainsFunc(g.workers, func(w workerState) bool { return !w.can })
}

// Received returns how much of another rank's state the workers have received, over all workers
// that are receiving one.
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

// changed wakes all waiting callers. mu is held.
func (g *Group) changed() {
	close(g.moved)
	g.moved = make(chan struct{})
}

// Close closes the connections of the workers, and ends their requests to the store.
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

// Leave asks the workers to leave their generation, and ends their requests to its store. It
// returns when all workers take part in no more collectives of it. held is the lowest optimizer
// step of their states; nil: a worker has no state.
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

// Await returns when all workers wait for their first world. Workers that start in no generation
// report that without being asked to leave one.
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
		if err := sendLine(w.conn, message{Leave: g.generation}); err != nil {
			g.drop(w)
			return fmt.Errorf("%w: %w", ErrCannotStay, err)
		}
	}
	g.requests.End()
	return nil
}

// left reports whether all workers have left the current generation. held is the lowest step of
// their states; nil: a worker has no state.
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

// Hand gives the workers the variables of a newer generation, by local rank. All of them must have
// left theirs. After an error some workers may have them, so the caller must end all workers.
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
		if err := sendLine(w.conn, message{World: environ[i]}); err != nil {
			g.drop(w)
			return fmt.Errorf("%w: %w", ErrCannotStay, err)
		}
	}
	return nil
}

// drop removes a worker whose connection has ended. mu is held.
func (g *Group) drop(w *workerState) {
	if w.conn == nil {
		return
	}
	w.conn.Close()
	*w = workerState{}
	g.changed()
}

// serveWorker reads the messages of one worker until it closes the connection.
func (g *Group) serveWorker(c net.Conn, in *bufio.Scanner, o opening) {
	if why := g.connect(c, o); why != "" {
		sendLine(c, message{Refused: why})
		return
	}
	w := &g.workers[*o.LocalRank]
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.drop(w)
	}()
	for in.Scan() {
		var s workerMessage
		if err := json.Unmarshal(in.Bytes(), &s); err != nil {
			return
		}
		g.record(w, s)
	}
}

// connect records the connection of a worker. It returns the reason if it refuses.
func (g *Group) connect(c net.Conn, o opening) string {
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

// record records a message of a worker. It ignores a left message of another generation.
func (g *Group) record(w *workerState, s workerMessage) {
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
