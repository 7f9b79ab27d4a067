// Package outside waits for states outside of a test's process, and starts clusters there.
package outside

import (
	"testing"
	"time"
)

// Poll is a state that a test waits for, or that must hold.
type Poll struct {
	What  string
	Every time.Duration // the shortest pause between two calls of f
	Limit time.Duration
}

// pause is after a call of f that began at a time. It is longer after a slow one, such as a command: tests that
// wait leave the processors to those that run.
func (p Poll) pause(began time.Time) {
	<-time.After(max(p.Every, min(4*time.Since(began), time.Second)))
}

// Until returns when f returns nil. After the limit it fails t with the last error of f.
func (p Poll) Until(t testing.TB, f func() error) {
	t.Helper()
	for end := time.Now().Add(p.Limit); ; {
		began := time.Now()
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s: %v", p.Limit, p.What, err)
		}
		p.pause(began)
	}
}

// Holds calls f until the limit has passed, and fails t with the first error of f.
func (p Poll) Holds(t testing.TB, f func() error) {
	t.Helper()
	for end := time.Now().Add(p.Limit); time.Now().Before(end); {
		began := time.Now()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", p.What, err)
		}
		p.pause(began)
	}
}
