package scope

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Scope
		before, done := s.Context(t.Context())
		defer done()
		ended := false
		s.Go(func(ctx context.Context) {
			<-ctx.Done()
			ended = true
		})
		synctest.Wait()
		if before.Err() != nil || ended {
			t.Fatal("the context ended before the scope")
		}
		s.End()
		s.Wait()
		after, cancel := s.Context(t.Context())
		defer cancel()
		if before.Err() == nil || after.Err() == nil || !ended {
			t.Error("a context outlived the scope")
		}
		if t.Context().Err() != nil {
			t.Error("the parent was cancelled")
		}
	})
}

func TestNewEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		s := New(parent)
		ctx, done := s.Context(context.Background())
		defer done()
		cancel()
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the scope outlived its context")
		}
	})
}

func TestNothingIsKeptOfWorkThatIsDone(t *testing.T) {
	var s Scope
	for range 3 {
		s.Go(func(context.Context) {})
	}
	s.Wait()
	ctx, cancel := s.Context(t.Context())
	cancel()
	if len(s.cancels) != 0 || ctx.Err() == nil {
		t.Errorf("%d contexts are kept", len(s.cancels))
	}
	s.End()
	s.End()
}
