// Package scope provides Scope, which hands out contexts, owns goroutines, and cancels all of them
// at once. A struct that owns work has a Scope instead of a context.
package scope

import (
	"context"
	"sync"
)

// Scope owns work, which may run until it ends. The zero Scope is ready for use.
type Scope struct {
	group sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	ended   bool
	next    int64
	cancels map[int64]context.CancelFunc // of the contexts that are not cancelled yet
}

// New returns a Scope that ends when ctx ends, if End is not called earlier.
func New(ctx context.Context) *Scope {
	s := new(Scope)
	context.AfterFunc(ctx, s.End)
	return s
}

// Context returns a child of parent that End cancels, too. The caller must call the function when
// the work is done.
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

// End cancels all contexts, also those of later calls of Context.
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

// Wait waits until every goroutine that Go started has ended.
func (s *Scope) Wait() { s.group.Wait() }
