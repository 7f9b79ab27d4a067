package membership

import (
	"context"
	"sync/atomic"
	"time"
)

// line is a connection to a node, or the attempt to open one.
type line struct {
	to     *contact
	beats  chan struct{} // holds one beat: a stuck line drops beats, and the owner never waits
	cancel context.CancelFunc
	began  time.Time
	// quiet: the owner needs no answer before its next tick. An answer is then stored in answered,
	// as the time since began, and wakes no goroutine.
	quiet    atomic.Bool
	answered atomic.Int64
}

// note stores the time of an answer for the owner's next tick, if the line is quiet. It reports
// whether it did.
func (l *line) note() bool {
	if !l.quiet.Load() {
		return false
	}
	l.answered.Store(int64(time.Since(l.began)))
	return l.quiet.Load() // if it changed in between, the owner may not look again soon
}

// beat sends a beat, unless one is waiting or l is nil.
func (l *line) beat() {
	if l == nil {
		return
	}
	select {
	case l.beats <- struct{}{}:
	default:
	}
}
