package proc

// This file gives the Go runtime all processors while the program works, and one at rest. With more
// than one, each wake-up also wakes a thread that looks for work and finds none, which takes half
// of the processor time of an agent at rest.

import (
	"context"
	"runtime"
	"syscall"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

const (
	period = 250 * time.Millisecond // the agent's tick: it wakes then anyway
	busy   = period / 4             // a period with more processor time gives the runtime all processors
	quiet  = period / 20            // a period with less processor time is quiet
	rested = 20                     // after so many quiet periods in a row one processor is enough
)

// FollowProcessors sets the processors of the Go runtime until ctx ends. It returns at once if there is only
// one.
func FollowProcessors(ctx context.Context) {
	all := runtime.GOMAXPROCS(0)
	if all == 1 {
		return
	}
	defer runtime.GOMAXPROCS(all)
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
		}
		before = now
		tick.Reset(membership.UntilTick(time.Now(), period))
	}
}

// use is how busy the program was in the last periods.
type use struct {
	quiet int  // how many periods in a row were quiet
	one   bool // one processor is enough
}

// add counts a period. took is the processor time of the program in it.
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

// used returns the processor time of this process so far.
func used() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0 // getrusage fails only for bad arguments
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
