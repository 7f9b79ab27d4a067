package change

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Restart is the command that starts the workers of a job again.
func Restart() command.Command {
	return command.Command{Name: "restart", Args: "[JOB]", Most: 1,
		Usage: "have a job save, end its workers and start them again", Action: restartAction,
		Flags: []command.Flag{
			command.JobFlag(),
			{Name: "timeout", Arg: "TIME", Usage: "how long to wait for the result (none)"},
			{Name: "detach", Kind: command.Boolean, Usage: "do not wait for the result"},
		}}
}

func restartAction(ctx context.Context, c *command.Call) error {
	limit, err := c.Setting("timeout").DurationOrNone(0)
	if err != nil {
		return err
	}
	s, snap, err := target.OpenLivingJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	r := restarting{Followed: target.Followed{Call: c, Server: s, Seen: &snap}}
	ctx, cancel := target.Within(ctx, limit)
	defer cancel()
	name := snap.Job.Name
	err = r.Follow(ctx, func(now *rendezvous.Snapshot) (bool, error) { return r.step(ctx, now) })
	asked := target.Asked{Stays: fmt.Sprintf("job %s was not asked to restart: it trains not yet", name),
		Cure: fmt.Sprintf("elastic status %s says what it waits for", name)}
	if r.of > 0 {
		asked.Stays = fmt.Sprintf("the request to restart job %s stays", name)
	}
	return target.Cut(c, err, r.missing.Last, asked)
}

// restarting is a restart that is followed.
type restarting struct {
	target.Followed
	of      schema.Generation // whose workers are asked to start again; 0: none was asked yet
	missing target.ProgressLine
}

// step asks once, when a World runs, and reports whether a later one runs.
func (r *restarting) step(ctx context.Context, now *rendezvous.Snapshot) (enough bool, err error) {
	name := now.Job.Name
	r.missing.Tell(r.Call, status.Explain(now, r.Call.Out.Now()))
	switch {
	case target.Remade(now, r.Seen) != nil:
		return true, target.Remade(now, r.Seen)
	case now.Job.UID != r.Seen.Job.UID || now.Job.Attempt != r.Seen.Job.Attempt:
		return true, problem.New(problem.JobEnded, "the attempt of job %s that was to restart has ended", name)
	case target.Ended(now):
		return true, endedError(now)
	case now.Wish.Stop == now.Job.Attempt:
		return true, problem.New(problem.JobEnded, "job %s was asked to stop", name).Cure("elastic status %s", name)
	case now.World == nil:
		return false, nil
	case now.World.Phase == rendezvous.Finishing:
		return true, problem.New(problem.JobEnded, "job %s is finishing: some of its workers are done", name).
			Cure("elastic status %s", name)
	case now.World.Phase != rendezvous.Running:
		return false, nil
	case r.of == 0:
		return r.ask(ctx, now)
	case now.World.Generation > r.of:
		return true, r.result(now, "running",
			fmt.Sprintf("job %s restarted: generation %d running%s", name, now.World.Generation, lost(now)))
	}
	return false, nil
}

// ask writes the wish. If the job changed meanwhile, the next change asks again.
func (r *restarting) ask(ctx context.Context, now *rendezvous.Snapshot) (enough bool, err error) {
	wish := now.Wish
	wish.By, wish.Restart = "restart", now.World.Generation
	_, err = txn.Requests{Store: r.Server, Job: now.Job.Name}.SetWish(ctx, now, wish)
	if store.Moved(err) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	r.of = now.World.Generation
	if r.Call.Truth("detach") {
		return true, r.result(now, "asked", fmt.Sprintf("job %s was asked to restart", now.Job.Name))
	}
	return false, nil
}

// result prints the state of the job on stdout.
func (r *restarting) result(now *rendezvous.Snapshot, state, text string) error {
	out := r.Call.Out
	if out.Json {
		return out.Object(map[string]any{"job": now.Job.Name, "generation": now.World.Generation,
			"state": state, "unsaved": now.World.Unsaved})
	}
	return out.Line("%s", text)
}
