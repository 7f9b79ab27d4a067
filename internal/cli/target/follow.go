package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// lookAgain is how often a followed job is evaluated without a change, because some conditions
// depend on the time.
const lookAgain = 10 * time.Second

// Followed is the job that a command follows.
type Followed struct {
	Call   *command.Call
	Server *Server
	Seen   *rendezvous.Snapshot // the job as the command found it
}

// Follow calls each with the job now and after each change, until each returns enough or an error.
// If the server does not answer, Follow tells the user once, and continues.
func (f Followed) Follow(
	ctx context.Context, each func(*rendezvous.Snapshot) (enough bool, err error),
) error {
	c, s, seen := f.Call, f.Server, f.Seen
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates := follow.Reader{Store: s, Job: seen.Job.Name}.Follow(ctx, follow.ScopeEvents)
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	away := false
	for last := (*rendezvous.Snapshot)(nil); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		case u, ok := <-updates:
			switch {
			case !ok:
				return context.Cause(ctx)
			case schema.Unreadable(u.Err), store.Refused(u.Err):
				return u.Err
			case u.Err != nil:
				if !away {
					c.Out.Say("the server does not answer; going on")
				}
				away = true
				continue
			case u.Job == nil:
				return vanishedError(ctx, s, jobOf(last, seen))
			}
			if away {
				c.Out.Say("the server answers again")
			}
			away, last = false, &u.Snapshot
		}
		if last == nil {
			continue
		}
		if enough, err := each(last); enough || err != nil {
			return err
		}
	}
}

// jobOf returns the job of the newest snapshot.
func jobOf(last, first *rendezvous.Snapshot) *rendezvous.Job {
	if last != nil {
		return last.Job
	}
	return first.Job
}

// errLimit is the cause of a context that --timeout ended.
var errLimit = errors.New("the time is up")

// Within ends ctx after --timeout.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: %s", errLimit, limit))
}

// Asked describes a request that a command follows. Stays says that the request remains if the
// command ends early. Cure says how to complete it or to take it back.
type Asked struct{ Stays, Cure string }

// Cut returns the error of a command that stops following because of --timeout or Ctrl-C. It tells
// the user that the request remains. missing is what the command waited for.
func Cut(c *command.Call, err error, missing string, asked Asked) error {
	switch {
	case errors.Is(err, errLimit):
		if missing == "" {
			missing = "the server did not answer"
		}
		return problem.New(problem.Timeout, "%v", err).Because("%s; %s", missing, asked.Stays).
			Cure("%s", asked.Cure)
	case errors.Is(err, context.Canceled):
		c.Out.SayAfterEcho("%s; %s", asked.Stays, asked.Cure)
	}
	return err
}

// ProgressLine tells the user the reason to wait, each time that it changes.
type ProgressLine struct {
	Last string // the present reason to wait, also if it was not printed
	said string
}

// barrierQuiet is how long a barrier is not reported. Most barriers are shorter.
const barrierQuiet = 2 * time.Second

func (l *ProgressLine) Tell(c *command.Call, st status.Status) {
	l.Last = st.Waiting()
	if l.Last == "" || st.WhyCode != rendezvous.NodesMissing {
		l.Last = string(st.State) + ": " + st.Why
	}
	key := l.Last
	switch st.WhyCode {
	case rendezvous.Saving: // report it once, not for each node that has saved
		key = string(st.WhyCode)
	case rendezvous.WhyBarrier:
		if c.Out.Now().Sub(st.Since.Time) < barrierQuiet {
			return
		}
	}
	if key != l.said && !st.Ended() && st.State != status.StateRunning {
		c.Out.Say("%s", l.Last)
		l.said = key
	}
}

func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
