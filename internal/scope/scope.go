// Package scope ends work together: a Scope hands out contexts, owns goroutines, and cancels all of
// them at once. A struct that owns work has a Scope in place of a context.
package scope

import (
	"context"
	"sync"
)

// Scope is a span of time in which work may run. The zero Scope has begun.
type Scope struct {
	group sync.WaitGroup

	mu      sync.Mutex // guards what follows
	ended   bool
	next    int64
	cancels map[int64]context.CancelFunc // of the contexts that were handed out and not cancelled
}

// New returns a Scope that ends with ctx, if it is not ended before.
func New(ctx context.Context) *Scope {
	s := new(Scope)
	context.AfterFunc(ctx, s.End)
	return s
}

// Context returns a child of parent that is cancelled by End too. The caller calls the function
// when the work is done.
func (s *Scope) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		cancel()
		return ctx, cancel
	}
	if s.cancels == nil {
		s.cancels = map[int64]context.CancelFunc{}
	}
	id := s.next
	s.next++
	s.cancels[id] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, id)
	}
}

// Go runs f in a goroutine, with a context of the Scope.
func (s *Scope) Go(f func(ctx context.Context)) {
	ctx, cancel := s.Context(context.Background())
	s.group.Go(func() {
		defer cancel()
		f(ctx)
	})
}

// End cancels all contexts, those of later calls of Context as well.
func (s *Scope) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, cancel := range s.cancels {
		cancel()
	}
	s.cancels = nil
}

// Ended reports whether End was called.
func (s *Scope) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Wait returns when every goroutine of Go has ended.
func (s *Scope) Wait() { s.group.Wait() }
