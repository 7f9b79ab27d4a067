package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// relist is how often a job that is followed is read again although nothing was heard: a watch may be
// deaf without an error.
const relist = 10 * time.Second

// follow calls each with the job of seen as it is now, and again after every change, until it says that it
// saw enough. While the server does not answer it says so once, and goes on.
func (c *call) follow(ctx context.Context, s *server, seen *rendezvous.Snapshot, each func(*rendezvous.Snapshot) (enough bool, err error)) error {
	name, uid := seen.Job.Name, seen.Job.UID
	away := false
	for wait := 100 * time.Millisecond; ; {
		snap, err := rendezvous.Read(ctx, s, name)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, schema.ErrNewerFormat), store.Refused(err):
			return err
		case err != nil:
			if !away {
				away = true
				c.out.say("the server does not answer; going on")
			}
			if err := pause(ctx, wait); err != nil {
				return err
			}
			wait = min(2*wait, 2*time.Second)
			continue
		case snap.Job == nil:
			return vanished(ctx, s, &snap, name, uid)
		}
		uid = snap.Job.UID
		if away {
			away = false
			c.out.say("the server answers again")
		}
		wait = 100 * time.Millisecond
		if enough, err := each(&snap); enough || err != nil {
			return err
		}
		if err := changed(ctx, s, name, snap.Rev); err != nil {
			return err
		}
	}
}

// changed returns when the job was written after revision rev, or it is time to read it again.
func changed(ctx context.Context, s *server, name schema.Job, rev int64) error {
	watching, cancel := context.WithTimeout(ctx, relist)
	defer cancel()
	for ch := range s.Watch(watching, name.Prefix(), store.End(name.Prefix()), rev+1) {
		if len(ch.Events) > 0 || ch.Err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// errLimit is the cause of a context whose --timeout passed.
var errLimit = errors.New("the time is up")

// within ends ctx after --timeout.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: %s", errLimit, limit))
}

// cut is the error of a following that came to no end: a limit passed, or Ctrl-C. What was asked
// stays asked.
func (c *call) cut(err error, missing, asked string) error {
	switch {
	case errors.Is(err, errLimit):
		if missing == "" {
			missing = "the server did not answer"
		}
		return fail(Timeout, "%v", err).because("%s", missing).cure("%s", asked)
	case errors.Is(err, context.Canceled):
		c.out.say("%s", asked)
	}
	return err
}

// progressLine says what a following waits for, each time that it is something else.
type progressLine struct{ last string }

func (l *progressLine) tell(c *call, st status.Status) {
	text := st.Waiting()
	if text == "" || st.WhyCode != rendezvous.NodesMissing {
		text = string(st.State) + ": " + st.Why
	}
	if text != l.last && !st.Ended() && st.State != status.StateRunning {
		c.out.say("%s", text)
	}
	l.last = text
}
