// Package wait polls for states outside of a test's process.
package wait

import (
	"testing"
	"time"
)

// For is a state that a test waits for, or that must hold.
type For struct {
	What  string
	Every time.Duration // the interval between two calls of f
	Limit time.Duration
}

// Until returns when f returns nil. After the limit it fails t with the last error of f.
func (w For) Until(t testing.TB, f func() error) {
	t.Helper()
	again := time.NewTicker(w.Every)
	defer again.Stop()
	for end := time.Now().Add(w.Limit); ; <-again.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s: %v", w.Limit, w.What, err)
		}
	}
}

// Holds calls f until the limit has passed, and fails t with the first error of f.
func (w For) Holds(t testing.TB, f func() error) {
	t.Helper()
	again := time.NewTicker(w.Every)
	defer again.Stop()
	for end := time.Now().Add(w.Limit); time.Now().Before(end); <-again.C {
		if err := f(); err != nil {
			t.Fatalf("%s: %v", w.What, err)
		}
	}
}
