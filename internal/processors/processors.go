// Package processors gives the Go runtime as many processors as the program uses: all while it works,
// one at rest. With more than one, each wake-up also wakes a thread that looks for work and finds none,
// which is half of what an agent costs at rest. The thread that watches the others is slowed then.
package processors

import (
	"context"
	"runtime"
	"syscall"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

const (
	period = 250 * time.Millisecond // the agent's tick: it wakes for that anyway
	busy   = period / 4             // processor time of a period with which all processors are given
	quiet  = period / 20            // and below which the period counts as quiet
	rested = 20                     // quiet periods in a row, after which one processor does
)

// Follow sets the processors of the Go runtime until ctx ends. It returns at once if there is but one.
func Follow(ctx context.Context) {
	all := runtime.GOMAXPROCS(0)
	if all == 1 {
		return
	}
	var m monitor
	defer func() {
		m.restore()
		runtime.GOMAXPROCS(all)
	}()
	tick := time.NewTimer(membership.UntilTick(time.Now(), period))
	defer tick.Stop()
	u, before := use{}, used()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, one := used(), u.one
		if u.add(now - before); u.one != one {
			runtime.GOMAXPROCS(u.processors(all))
			m.restore()
		}
		switch u.quiet {
		case rested:
			m.look()
		case 2 * rested:
			m.slow()
		}
		before = now
		tick.Reset(membership.UntilTick(time.Now(), period))
	}
}

// use is how much the program did lately.
type use struct {
	quiet int  // periods in a row in which it did next to nothing
	one   bool // one processor is enough
}

// add counts a period in which the program took so much processor time.
func (u *use) add(took time.Duration) {
	if took < quiet {
		u.quiet++
	} else {
		u.quiet = 0
	}
	switch {
	case took > busy:
		u.one = false
	case u.quiet >= rested:
		u.one = true
	}
}

func (u *use) processors(all int) int {
	if u.one {
		return 1
	}
	return all
}

// used is the processor time of this process so far.
func used() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0 // it fails for bad arguments only
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
