package membership

import (
	"context"
	"sync/atomic"
	"time"
)

// line is one connection, or the attempt at one.
type line struct {
	to     *contact
	beats  chan struct{} // holds one beat at most: a stuck line misses beats, the owner never waits
	cancel context.CancelFunc
	began  time.Time
	// quiet: an answer says nothing that the owner must know before its next tick. It is noted in
	// answered, as the time since began, and wakes no goroutine.
	quiet    atomic.Bool
	answered atomic.Int64
}

// note keeps the time of an answer for the owner's next tick, if the line is quiet.
func (l *line) note() bool {
	if !l.quiet.Load() {
		return false
	}
	l.answered.Store(int64(time.Since(l.began)))
	return l.quiet.Load() // else the owner may not look again soon
}

func (l *line) beat() {
	if l == nil {
		return
	}
	select {
	case l.beats <- struct{}{}:
	default:
	}
}
