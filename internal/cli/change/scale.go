// Package change has the commands that change a job: scale, stop, admit, rm and kube sync.
package change

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/store"
)

// Scale is the command that changes the number of nodes of a job.
func Scale() command.Command {
	return command.Command{Name: "scale", Args: "[JOB] --np=N | N | +1 | -1", Most: 2,
		Usage: "set how many nodes a job has", Action: scaleAction, Flags: []command.Flag{
			command.JobFlag(),
			{Name: "np", Arg: "N", Usage: "the size, in nodes",
				Same: []string{"nnodes", "num-nodes", "num-machines"}},
			{Name: "if-np", Arg: "N", Usage: "only if the size is N now"},
			{Name: "timeout", Arg: "TIME", Usage: "how long to wait for the result (none)"},
			{Name: "detach", Kind: command.Boolean, Usage: "do not wait for the result"},
			{Name: "when-ready", Kind: command.Boolean, Usage: "keep training until enough nodes are here"},
			{Name: "dry-run", Kind: command.Boolean, Usage: "print the effect, and change nothing"},
		}}
}

func scaleAction(ctx context.Context, c *command.Call) error {
	size, err := takeSize(c)
	if err != nil {
		return err
	}
	only, err := takeCondition(c)
	if err != nil {
		return err
	}
	limit, err := c.Setting("timeout").DurationOrNone(0)
	if err != nil {
		return err
	}
	s, snap, err := target.OpenLivingJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	name := snap.Job.Name
	for {
		if err := scalable(c, &snap, only); err != nil {
			return err
		}
		np, err := size.of(&snap)
		if err != nil {
			return err
		}
		wish := wishOf(c, &snap, np)
		if c.Truth("dry-run") {
			return dryRun(c, &snap, wish)
		}
		if np == snap.Wish.NP && runsAt(&snap, np) {
			c.Out.Say("job %s is at np=%d already", name, np)
			return scaled(c, &snap, np, fmt.Sprintf("job %s scaled to %d: generation %d running", name, np,
				snap.World.Generation))
		}
		if np == snap.Wish.NP && wish.Until == snap.Wish.Until {
			c.Out.Say("%s", status.ScaleEffect(&snap, snap.Wish))
			return followScale(ctx, target.Followed{Call: c, Server: s, Seen: &snap}, snap.Wish, limit)
		}
		wish, err = txn.Requests{Store: s, Job: name}.SetWish(ctx, &snap, wish)
		if err == nil {
			c.Out.Say("%s", status.ScaleEffect(&snap, wish))
			return followScale(ctx, target.Followed{Call: c, Server: s, Seen: &snap}, wish, limit)
		}
		if !store.Moved(err) {
			return err
		}
		if snap, err = target.ReadJob(ctx, s, name); err != nil {
			return err
		}
	}
}

// takeCondition returns the size of --if-np; 0: not given.
func takeCondition(c *command.Call) (int, error) {
	if s := c.Setting("if-np"); s.Given {
		return s.Nodes(s.Text)
	}
	return 0, nil
}

// scalable fails if a job has ended, is stopping, or does not have the size of --if-np.
func scalable(c *command.Call, snap *rendezvous.Snapshot, only int) error {
	name := snap.Job.Name
	switch {
	case target.Ended(snap):
		return endedError(snap)
	case snap.Wish.Stop == snap.Job.Attempt:
		return problem.New(problem.JobEnded, "job %s was asked to stop", name).Cure("elastic status %s", name)
	case only != 0 && only != snap.Wish.NP:
		return problem.New(problem.NPConflict, "%s: job %s is at np=%d", c.Setting("if-np"), name,
			snap.Wish.NP).
			Detail("np", snap.Wish.NP)
	}
	return nil
}

// dryRun prints what the wish would change.
func dryRun(c *command.Call, s *rendezvous.Snapshot, wish rendezvous.Wish) error {
	effect := status.ScaleEffect(s, wish)
	if !c.Out.Json {
		return c.Out.Line("dry run, nothing was changed: %s", effect)
	}
	return c.Out.Object(map[string]any{"job": s.Job.Name, "np": wish.NP, "generation": s.Fence,
		"state": "unchanged", "effect": effect})
}

// wishOf returns the wish for np nodes. With --when-ready, a job that trains keeps its size until
// all np nodes are here, if its size is exact.
func wishOf(c *command.Call, s *rendezvous.Snapshot, np int) rendezvous.Wish {
	wish := s.Wish
	wish.NP, wish.By, wish.Until = np, "scale", 0
	if c.Truth("when-ready") && s.Job.Limits.Exact && status.Trains(s) && np > s.World.Count {
		wish.Until = s.World.Count
	}
	return wish
}

// wanted is a size, or the change of a size.
type wanted struct {
	command.Setting
	by    int
	delta bool
}

// takeSize removes the size from the positionals. A lone number is a size, and not a job.
func takeSize(c *command.Call) (wanted, error) {
	w := wanted{Setting: c.Setting("np")}
	var rest []string
	for i, a := range c.Args {
		isSize := command.Digits(a) && (i == len(c.Args)-1)
		if !isSize {
			rest = append(rest, a)
			continue
		}
		if w.Given {
			return w, problem.New(problem.Usage, "the size is given twice: %s and %s", w.Setting, a)
		}
		w.Setting = command.Setting{Name: "np", Text: a, Origin: "--np", Given: true}
		w.delta = a[0] == '+' || a[0] == '-'
	}
	if len(rest) > 1 {
		return w, problem.New(problem.NPRange, "--np=%s: np is a number of nodes", rest[1]).
			Cure("elastic scale %s --np=N", rest[0])
	}
	if !w.Given {
		return w, problem.New(problem.Usage, "which size?").
			Cure("elastic scale --np=N, elastic scale N, elastic scale +1")
	}
	c.Args = rest
	var err error
	if w.delta {
		if w.by, err = strconv.Atoi(w.Text); err != nil || w.by == 0 {
			return w, problem.New(problem.NPRange, "%s: no change of a size", w.Text).Cure("elastic scale +1")
		}
		return w, nil
	}
	if strings.Contains(w.Text, ":") {
		return w, problem.New(problem.NPRange, "%s: scale sets one size", w.Setting).
			Cure("--np=N; MIN:MAX are set when a job is begun")
	}
	_, err = w.Nodes(w.Text)
	return w, err
}

// of returns the wanted size for the job in s. Fewer are fewer than train: a wish that is not met yet
// would leave the world as it is.
func (w wanted) of(s *rendezvous.Snapshot) (int, error) {
	j := s.Job
	shown := w.Setting
	if w.delta {
		from := s.Wish.NP
		if w.by < 0 && status.Trains(s) {
			from = min(from, s.World.Count)
		}
		shown.Text = strconv.Itoa(from + w.by)
	}
	np, err := shown.Nodes(shown.Text)
	if err != nil {
		return 0, err
	}
	if !j.Limits.Exact && (np < j.Limits.Min || np > j.Limits.Max) {
		return 0, problem.New(problem.NPRange, "%s: job %s takes %d to %d nodes", shown, j.Name, j.Limits.Min,
			j.Limits.Max).
			Because("it was begun with --np=%d:%d", j.Limits.Min, j.Limits.Max).
			Cure("a size in that range; another range takes elastic stop %s, and elastic run with it", j.Name).
			Detail("min", j.Limits.Min).Detail("max", j.Limits.Max)
	}
	if _, err := scaling.For(j.Base, j.Workers(np)); err != nil {
		return 0, problem.New(problem.NoPlan, "%s: %v", shown, err).Of(err).Cure("a size that the batch fits")
	}
	return np, nil
}

func endedError(s *rendezvous.Snapshot) *problem.Error {
	again := "elastic run, with the same line, begins a new attempt"
	if s.World.Phase == rendezvous.Done {
		again = "elastic run --again, with the same line, trains it anew from scratch"
	}
	return problem.New(problem.JobEnded, "job %s is %s", s.Job.Name, s.World.Phase).
		Because("a job that has ended cannot be scaled or stopped").Cure("%s", again)
}

// scaled prints the size of the job on stdout.
func scaled(c *command.Call, s *rendezvous.Snapshot, np int, text string) error {
	if !c.Out.Json {
		return c.Out.Line("%s", text)
	}
	var generation any
	state, unsaved := "asked", ""
	if s.World != nil {
		generation, unsaved = s.World.Generation, s.World.Unsaved
	}
	if runsAt(s, s.Wish.NP) {
		state = "running"
	}
	return c.Out.Object(map[string]any{"job": s.Job.Name, "np": np, "generation": generation, "state": state,
		"unsaved": unsaved})
}

// runsAt reports whether a world of np nodes runs.
func runsAt(s *rendezvous.Snapshot, np int) bool {
	return s.World != nil && s.World.Attempt == s.Job.Attempt && s.World.Count == np &&
		(s.World.Phase == rendezvous.Running || s.World.Phase == rendezvous.Finishing)
}

// followScale follows the job until a world of the wished size runs. Meanwhile it prints how many
// nodes are missing.
func followScale(ctx context.Context, f target.Followed, wish rendezvous.Wish, limit time.Duration) error {
	c, seen := f.Call, f.Seen
	name := seen.Job.Name
	if c.Truth("detach") {
		return scaled(c, seen, wish.NP, fmt.Sprintf("job %s was asked to scale to %d", name, wish.NP))
	}
	stays := fmt.Sprintf("the request to scale job %s to %d stays", name, wish.NP)
	if status.Lacking(seen, wish) > 0 {
		c.Out.Say("waiting until %d nodes are here; Ctrl-C ends this command only: %s", wish.NP, stays)
	}
	ctx, cancel := target.Within(ctx, limit)
	defer cancel()
	var missing target.ProgressLine
	err := f.Follow(ctx, func(snap *rendezvous.Snapshot) (bool, error) {
		st := status.Explain(snap, c.Out.Now())
		missing.Tell(c, st)
		switch {
		case target.Remade(snap, seen) != nil:
			return true, target.Remade(snap, seen)
		case snap.Job.UID != seen.Job.UID || snap.Job.Attempt != seen.Job.Attempt:
			return true, problem.New(problem.JobEnded, "the attempt of job %s that was to scale has ended", name)
		case target.Ended(snap):
			return true, endedError(snap)
		case snap.Wish.Stop == snap.Job.Attempt:
			return true, problem.New(problem.JobEnded, "overtaken: job %s was asked to stop", name)
		case snap.Wish.NP != wish.NP:
			return true, problem.New(problem.NPConflict, "overtaken: job %s was asked for np=%d after it",
				name, snap.Wish.NP).
				Because("another request scaled the same job").Detail("np", snap.Wish.NP)
		case runsAt(snap, wish.NP):
			return true, scaled(c, snap, wish.NP,
				fmt.Sprintf("job %s scaled to %d: generation %d running%s", name, wish.NP,
					snap.World.Generation, lost(snap)))
		}
		return false, nil
	})
	return target.Cut(c, err, missing.Last, target.Asked{Stays: stays, Cure: undo(seen, wish.NP)})
}

// lost says what the change to this World lost because the workers did not save; "": nothing.
func lost(s *rendezvous.Snapshot) string {
	if s.World == nil || s.World.Unsaved == "" {
		return ""
	}
	return "; " + s.World.Unsaved
}

// undo returns the fix while nodes are missing. before is the job before the request.
func undo(before *rendezvous.Snapshot, np int) string {
	text := "elastic run on more nodes"
	if before.Wish.NP != np {
		text += fmt.Sprintf("; undo: elastic scale %s --np=%d", before.Job.Name, before.Wish.NP)
	}
	return text
}
