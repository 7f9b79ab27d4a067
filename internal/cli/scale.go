package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/store"
)

func scaleCommand() command {
	return command{name: "scale", args: "[JOB] --np=N | N | +1 | -1", most: 2, usage: "set how many nodes a job has", action: scaleAction, flags: []flag{
		jobFlag(),
		{name: "np", arg: "N", usage: "the size, in nodes", same: []string{"nnodes", "num-nodes"}},
		{name: "if-np", arg: "N", usage: "only if the size is N now"},
		{name: "timeout", arg: "TIME", usage: "how long to follow; none"},
		{name: "detach", kind: boolean, usage: "do not follow until it holds"},
		{name: "when-ready", kind: boolean, usage: "train on until enough nodes are here"},
		{name: "dry-run", kind: boolean, usage: "say what it would do, and change nothing"},
	}}
}

func scaleAction(ctx context.Context, c *call) error {
	size, err := c.takeSize()
	if err != nil {
		return err
	}
	ifNP, only := c.setting("if-np"), 0
	if ifNP.given {
		if only, err = ifNP.nodes(ifNP.text); err != nil {
			return err
		}
	}
	limit, err := c.setting("timeout").duration(0, true)
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
	for {
		if ended(&snap) {
			return endedError(&snap)
		}
		if snap.Wish.Stop == snap.Job.Attempt {
			return fail(JobEnded, "job %s was asked to stop", name).cure("elastic status %s", name)
		}
		if ifNP.given && only != snap.Wish.NP {
			return fail(NPConflict, "%s: job %s is at np=%d", ifNP, name, snap.Wish.NP).detail("np", snap.Wish.NP)
		}
		np, err := size.of(&snap)
		if err != nil {
			return err
		}
		if np == snap.Wish.NP && holds(&snap, np) {
			c.out.say("job %s is at np=%d already", name, np)
			return c.scaled(&snap, np, fmt.Sprintf("job %s scaled to %d: generation %d running", name, np, snap.World.Generation))
		}
		wish := c.wishOf(&snap, np)
		if c.context.Bool("dry-run") {
			return c.out.line("%s", status.ScaleEffect(&snap, wish))
		}
		if np == snap.Wish.NP && wish.Until == snap.Wish.Until {
			return c.followScale(ctx, s, &snap, snap.Wish, limit)
		}
		wish, err = txn.Requests{Store: s, Job: name}.SetWish(ctx, &snap, wish)
		if err == nil {
			c.out.say("%s", status.ScaleEffect(&snap, wish))
			return c.followScale(ctx, s, &snap, wish, limit)
		}
		if !store.Moved(err) {
			return err
		}
		if snap, err = readJob(ctx, s, name); err != nil {
			return err
		}
	}
}

// wishOf is the wish of s for np nodes. With --when-ready an exact job that trains keeps its size
// until they are here.
func (c *call) wishOf(s *rendezvous.Snapshot, np int) rendezvous.Wish {
	wish := s.Wish
	wish.NP, wish.By, wish.Until = np, "scale", 0
	if c.context.Bool("when-ready") && s.Job.Limits.Exact && status.Trains(s) && np > s.World.Count {
		wish.Until = s.World.Count
	}
	return wish
}

// wanted is a size, or a change of one.
type wanted struct {
	setting
	by    int
	delta bool
}

// takeSize takes the size out of the positionals: a lone number is a size and never a job.
func (c *call) takeSize() (wanted, error) {
	w := wanted{setting: c.setting("np")}
	var rest []string
	for i, a := range c.args {
		isSize := digits(a) && (i == len(c.args)-1)
		if !isSize {
			rest = append(rest, a)
			continue
		}
		if w.given {
			return w, fail(Usage, "the size is given twice: %s and %s", w.setting, a)
		}
		w.setting = setting{name: "np", text: a, origin: "--np", given: true}
		w.delta = a[0] == '+' || a[0] == '-'
	}
	if len(rest) > 1 {
		return w, fail(NPRange, "--np=%s: np is a number of nodes", rest[1]).cure("elastic scale %s --np=N", rest[0])
	}
	if !w.given {
		return w, fail(Usage, "which size?").cure("elastic scale --np=N, elastic scale N, elastic scale +1")
	}
	c.args = rest
	var err error
	if w.delta {
		if w.by, err = strconv.Atoi(w.text); err != nil || w.by == 0 {
			return w, fail(NPRange, "%s: no change of a size", w.text).cure("elastic scale +1")
		}
		return w, nil
	}
	if strings.Contains(w.text, ":") {
		return w, fail(NPRange, "%s: scale sets one size", w.setting).cure("--np=N; MIN:MAX are set when a job is begun")
	}
	_, err = w.nodes(w.text)
	return w, err
}

// of is the size for a job as it is.
func (w wanted) of(s *rendezvous.Snapshot) (int, error) {
	j := s.Job
	shown := w.setting
	if w.delta {
		shown.text = strconv.Itoa(s.Wish.NP + w.by)
	}
	np, err := shown.nodes(shown.text)
	if err != nil {
		return 0, err
	}
	if !j.Limits.Exact && (np < j.Limits.Min || np > j.Limits.Max) {
		return 0, fail(NPRange, "%s: job %s takes %d to %d nodes", shown, j.Name, j.Limits.Min, j.Limits.Max).
			because("it was begun with --np=%d:%d", j.Limits.Min, j.Limits.Max).
			detail("min", j.Limits.Min).detail("max", j.Limits.Max)
	}
	if _, err := scaling.For(j.Base, np*j.Slots); err != nil {
		return 0, fail(NoPlan, "%s: %v", shown, err).of(err).cure("a size that the batch fits")
	}
	return np, nil
}

func endedError(s *rendezvous.Snapshot) *Error {
	return fail(JobEnded, "job %s is %s", s.Job.Name, s.World.Phase).
		because("a job that has ended has no size and nothing to stop").cure("elastic run begins a new attempt of one that failed or was stopped")
}

// scaled says, on stdout, what the size is now.
func (c *call) scaled(s *rendezvous.Snapshot, np int, text string) error {
	if !c.out.json {
		return c.out.line("%s", text)
	}
	var generation any
	state := "asked"
	if s.World != nil {
		generation = s.World.Generation
	}
	if holds(s, s.Wish.NP) {
		state = "running"
	}
	return c.out.object(map[string]any{"job": s.Job.Name, "np": np, "generation": generation, "state": state})
}

// holds reports whether a world of np nodes runs.
func holds(s *rendezvous.Snapshot, np int) bool {
	return s.World != nil && s.World.Attempt == s.Job.Attempt && s.World.Count == np &&
		(s.World.Phase == rendezvous.Running || s.World.Phase == rendezvous.Finishing)
}

// followScale follows until the wish holds, and says meanwhile what is missing.
func (c *call) followScale(ctx context.Context, s *server, seen *rendezvous.Snapshot, wish rendezvous.Wish, limit time.Duration) error {
	name := seen.Job.Name
	if c.context.Bool("detach") {
		return c.scaled(seen, wish.NP, fmt.Sprintf("job %s was asked to scale to %d", name, wish.NP))
	}
	ctx, cancel := within(ctx, limit)
	defer cancel()
	var missing progressLine
	err := c.follow(ctx, s, seen, func(snap *rendezvous.Snapshot) (bool, error) {
		st := status.Explain(snap, c.out.now())
		missing.tell(c, st)
		switch {
		case remade(snap, seen) != nil:
			return true, remade(snap, seen)
		case snap.Job.UID != seen.Job.UID || snap.Job.Attempt != seen.Job.Attempt:
			return true, fail(JobEnded, "the attempt of job %s that was to scale has ended", name)
		case ended(snap):
			return true, endedError(snap)
		case snap.Wish.Stop == snap.Job.Attempt:
			return true, fail(JobEnded, "overtaken: job %s was asked to stop", name)
		case snap.Wish.NP != wish.NP:
			return true, fail(NPConflict, "overtaken: job %s was asked for np=%d after it", name, snap.Wish.NP).
				because("somebody else scaled the same job").detail("np", snap.Wish.NP)
		case holds(snap, wish.NP):
			return true, c.scaled(snap, wish.NP, fmt.Sprintf("job %s scaled to %d: generation %d running", name, wish.NP, snap.World.Generation))
		}
		return false, nil
	})
	return c.cut(err, missing.last, fmt.Sprintf("job %s was asked to scale to %d, and still is", name, wish.NP))
}
