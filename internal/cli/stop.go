package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

func stopCommand() command {
	return command{name: "stop", args: "[JOB]", most: 1, usage: "have a job save and end", action: stopAction, flags: []flag{
		jobFlag(),
		{name: "grace", arg: "TIME", usage: "for the workers to save (what the job has)"},
		{name: "timeout", arg: "TIME", usage: "how long to follow; none"},
		{name: "detach", kind: boolean, usage: "do not follow until it has ended"},
	}}
}

func stopAction(ctx context.Context, c *call) error {
	limit, err := c.setting("timeout").duration(0, true)
	if err != nil {
		return err
	}
	grace, err := c.stopGrace()
	if err != nil {
		return err
	}
	s, name, err := c.jobServer(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := c.job(ctx, s, name, false)
	if err != nil {
		return err
	}
	name = snap.Job.Name
	requests := txn.Requests{Store: s, Job: name}
	for asked := false; !asked; {
		if ended(&snap) {
			return endedError(&snap)
		}
		if snap.Wish.Stop == snap.Job.Attempt {
			if grace != 0 && grace != snap.Wish.Grace {
				c.out.say("job %s was asked to stop before: --grace is not used", name)
			}
			break
		}
		wish := snap.Wish
		wish.Stop, wish.Grace, wish.By = snap.Job.Attempt, grace, "stop"
		_, err := requests.SetWish(ctx, &snap, wish)
		if err != nil && !store.Moved(err) {
			return err
		}
		asked = err == nil
		if snap, err = readJob(ctx, s, name); err != nil {
			return err
		}
	}
	// Nobody is there to take note of it: the end is written from here.
	if len(snap.Nodes) == 0 && !ended(&snap) {
		if _, err := requests.End(ctx, &snap, plan.StopWithoutNodes(&snap, c.out.now())); err != nil && !store.Moved(err) {
			return err
		}
	}
	if c.context.Bool("detach") {
		return c.stopped(&snap, fmt.Sprintf("job %s was asked to stop", name))
	}
	return c.followStop(ctx, s, &snap, limit)
}

// stopGrace is the grace of this stop; 0 if the job's holds. None at all is as short as a record can say.
func (c *call) stopGrace() (rendezvous.Seconds, error) {
	s := c.setting("grace")
	d, err := s.duration(0, true)
	if s.given {
		d = max(d, time.Millisecond)
	}
	return rendezvous.Seconds(d), err
}

// alone is how long nobody must be registered before a stop that was taken note of is ended from here:
// the time in which those who lost their registration may register again.
const alone = 10 * time.Second

func (c *call) followStop(ctx context.Context, s *server, seen *rendezvous.Snapshot, limit time.Duration) error {
	name := seen.Job.Name
	ctx, cancel := within(ctx, limit)
	defer cancel()
	var missing progressLine
	var empty time.Time
	err := c.follow(ctx, s, seen, func(snap *rendezvous.Snapshot) (bool, error) {
		missing.tell(c, status.Explain(snap, c.out.now()))
		switch {
		case remade(snap, seen) != nil:
			return true, remade(snap, seen)
		case snap.Job.UID != seen.Job.UID || snap.Job.Attempt != seen.Job.Attempt:
			return true, c.stopped(snap, fmt.Sprintf("job %s stopped, and began anew", name))
		case ended(snap):
			return true, c.stopped(snap, fmt.Sprintf("job %s %s", name, snap.World.Phase))
		case len(snap.Nodes) > 0:
			empty = time.Time{}
		case empty.IsZero():
			empty = c.out.now()
		case c.out.now().Sub(empty) >= alone:
			_, err := txn.Requests{Store: s, Job: name}.End(ctx, snap, plan.StopWithoutNodes(snap, c.out.now()))
			if err != nil && !store.Moved(err) {
				return true, err
			}
		}
		return false, nil
	})
	return c.cut(err, missing.last, fmt.Sprintf("job %s was asked to stop, and still is", name))
}

// stopped says, on stdout, what became of the job.
func (c *call) stopped(s *rendezvous.Snapshot, text string) error {
	if !c.out.json {
		return c.out.line("%s", text)
	}
	state := "asked"
	if ended(s) {
		state = string(s.World.Phase)
	}
	return c.out.object(map[string]any{"job": s.Job.Name, "state": state})
}
