package change

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// Stop is the command that stops a job.
func Stop() command.Command {
	return command.Command{Name: "stop", Args: "[JOB]", Most: 1, Usage: "have a job save and end",
		Action: stopAction, Flags: []command.Flag{
			command.JobFlag(),
			{Name: "require-save", Kind: command.Boolean,
				Usage: "refuse, and leave the job running, if the workers did not save"},
			{Name: "grace", Arg: "TIME", Usage: "how long workers may save (the job's --grace)"},
			{Name: "timeout", Arg: "TIME", Usage: "how long to wait for the result (none)"},
			{Name: "yes", Short: "y", Kind: command.Boolean, Usage: "do not ask, where no job is named"},
			{Name: "detach", Kind: command.Boolean, Usage: "do not wait for the result"},
		}}
}

func stopAction(ctx context.Context, c *command.Call) error {
	limit, err := c.Setting("timeout").DurationOrNone(0)
	if err != nil {
		return err
	}
	grace, err := stopGrace(c)
	if err != nil {
		return err
	}
	s, snap, err := target.OpenLivingJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	name := snap.Job.Name
	if named, _ := target.JobName(c); named == "" {
		if err := c.Confirm(fmt.Sprintf("stop job %s?", name)); err != nil {
			return err
		}
	}
	requests, required := txn.Requests{Store: s, Job: name}, c.Truth("require-save")
	for asked := false; !asked; {
		if target.Ended(&snap) {
			return endedError(&snap)
		}
		if snap.Wish.Stop == snap.Job.Attempt {
			if grace != 0 && grace != snap.Wish.Grace || required && !snap.Wish.RequireSave {
				c.Out.Say("job %s was asked to stop before: the flags of this stop are not used", name)
			}
			break
		}
		wish := snap.Wish
		wish.Stop, wish.Grace, wish.By = snap.Job.Attempt, grace, "stop"
		wish.RequireSave = required
		_, err := requests.SetWish(ctx, &snap, wish)
		if err != nil && !store.Moved(err) {
			return err
		}
		asked = err == nil
		if snap, err = target.ReadJob(ctx, s, name); err != nil {
			return err
		}
	}
	// No node is registered that would end the job, so this command writes its end.
	if len(snap.Nodes) == 0 && !target.Ended(&snap) {
		if _, err := requests.End(ctx, &snap, plan.StopWithoutNodes(&snap, c.Out.Now())); err != nil &&
			!store.Moved(err) {
			return err
		}
	}
	if c.Truth("detach") {
		return stopped(c, &snap, fmt.Sprintf("job %s was asked to stop", name))
	}
	return followStop(ctx, target.Followed{Call: c, Server: s, Seen: &snap}, limit)
}

// stopGrace returns the grace of this stop; 0: that of the job. --grace=0 becomes a millisecond,
// because 0 in the record means the job's grace.
func stopGrace(c *command.Call) (rendezvous.Seconds, error) {
	s := c.Setting("grace")
	d, err := s.DurationOrNone(0)
	if s.Given {
		d = max(d, time.Millisecond)
	}
	return rendezvous.Seconds(d), err
}

// nodelessLimit is how long a stopping job must have no node before this command ends it. Nodes that lost
// their registration can register again in that time.
const nodelessLimit = 10 * time.Second

// followStop follows the job until it has ended, and prints meanwhile what it waits for.
func followStop(ctx context.Context, f target.Followed, limit time.Duration) error {
	c, seen := f.Call, f.Seen
	name := seen.Job.Name
	ctx, cancel := target.Within(ctx, limit)
	defer cancel()
	var missing target.ProgressLine
	var empty time.Time
	err := f.Follow(ctx, func(snap *rendezvous.Snapshot) (bool, error) {
		missing.Tell(c, status.Explain(snap, c.Out.Now()))
		switch {
		case target.Remade(snap, seen) != nil:
			return true, target.Remade(snap, seen)
		case snap.Job.UID != seen.Job.UID || snap.Job.Attempt != seen.Job.Attempt:
			return true, stopped(c, snap, fmt.Sprintf("job %s stopped, and began anew", name))
		case target.Ended(snap):
			return true, stopped(c, snap, ended(snap))
		case snap.Wish.Stop != snap.Job.Attempt:
			return true, notStopped(snap)
		case len(snap.Nodes) > 0:
			empty = time.Time{}
		case empty.IsZero():
			empty = c.Out.Now()
		case c.Out.Now().Sub(empty) >= nodelessLimit:
			_, err := txn.Requests{Store: f.Server, Job: name}.End(ctx, snap,
				plan.StopWithoutNodes(snap, c.Out.Now()))
			if err != nil && !store.Moved(err) {
				return true, err
			}
		}
		return false, nil
	})
	return target.Cut(c, err, missing.Last,
		target.Asked{Stays: fmt.Sprintf("the request to stop job %s stays", name),
			Cure: fmt.Sprintf("elastic status %s says what it waits for", name)})
}

// ended says how the job ended, and what its workers did not save.
func ended(s *rendezvous.Snapshot) string {
	text := fmt.Sprintf("job %s %s", s.Job.Name, s.World.Phase)
	if s.World.Unsaved != "" {
		text += ": " + s.World.Unsaved
	}
	return text
}

// notStopped is the error of a stop that was refused because the workers did not save.
func notStopped(s *rendezvous.Snapshot) error {
	unsaved := s.World.Unsaved
	if h := s.World.Hold; h != nil {
		unsaved = cmp.Or(h.Unsaved, unsaved)
	}
	return problem.New(problem.NotSaved, "job %s goes on: its workers %s", s.Job.Name, unsaved).
		Because("--require-save was given").
		Cure("a longer --grace, a script that saves at SIGTERM, or elastic stop %s", s.Job.Name).
		Detail("unsaved", unsaved)
}

// stopped prints the state of the job on stdout.
func stopped(c *command.Call, s *rendezvous.Snapshot, text string) error {
	if !c.Out.Json {
		return c.Out.Line("%s", text)
	}
	state := "asked"
	if target.Ended(s) {
		state = string(s.World.Phase)
	}
	return c.Out.Object(map[string]any{"job": s.Job.Name, "state": state})
}
