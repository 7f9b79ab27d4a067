package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
)

// nanSettles is how long a node waits for others that saw an earlier loss that is not a number. All
// nodes look every progressEvery, and the other ranks have such a loss one step after the first.
const nanSettles = progressEvery * 3 / 2

// losses watches the losses that the workers of this node report in one generation, and reports the
// first one of the job that is not a number.
type losses struct {
	w     *workers
	world rendezvous.World
	rank  int              // of this node
	tails []*progress.Tail // by local rank
}

// lossesOf opens what the workers report, before they make a step of the generation.
func (g *group) lossesOf(world rendezvous.World, rank int) *losses {
	n := &losses{w: g.w, world: world, rank: rank}
	for local := range world.Workers(rank) {
		tail := progress.NewJSONTail(progressFile(launch.WorkerDir(g.runDir, uint64(g.began), local)))
		if e := g.w.o.ProgressRegex; e != nil {
			tail = progress.NewLogTail(g.w.logs.Path(local), e)
		}
		n.tails = append(n.tails, tail)
	}
	return n
}

func progressFile(workerDir string) string { return filepath.Join(workerDir, "progress.jsonl") }

// run ends with the workers or the generation, or when a loss that is not a number was reported.
func (n *losses) run(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTimer(membership.UntilTick(time.Now(), progressEvery))
	defer tick.Stop()
	var mine *rendezvous.Failure
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(membership.UntilTick(time.Now(), progressEvery))
		}
		if mine == nil {
			mine = n.look()
			if mine != nil && !ended && len(n.world.Members) > 1 && n.isEarliest(ctx, mine) {
				tick.Reset(nanSettles)
				continue
			}
		}
		if mine != nil && (!n.isEarliest(ctx, mine) || n.report(ctx, mine) == nil) {
			return
		}
	}
}

// look returns the first loss of a worker of this node that is not a number; nil: there is none.
func (n *losses) look() (first *rendezvous.Failure) {
	me := n.world.Members[n.rank]
	for local, tail := range n.tails {
		tail.Read()
		step, seen := tail.LossNaN()
		f := rendezvous.Failure{Node: me.Node, Incarnation: me.Incarnation, LocalRank: local,
			Rank: n.world.WorkerRank(n.rank, local), Code: 1, Step: step, NaN: true, Time: time.Now()}
		if seen && (first == nil || f.Before(*first)) {
			first = &f
		}
	}
	return first
}

// isEarliest notes the loss for the other nodes. It returns false if one of them saw an earlier one.
func (n *losses) isEarliest(ctx context.Context, mine *rendezvous.Failure) bool {
	requests := txn.Requests{Store: n.w.store, Job: n.w.o.Job.Name}
	earliest, err := requests.NoteNaN(ctx, &n.world, *mine)
	return err != nil || earliest.Node == mine.Node
}

// report reports that the loss is not a number, and ends the generation if the job has a rule for that.
func (n *losses) report(ctx context.Context, mine *rendezvous.Failure) error {
	requests := txn.Requests{Store: n.w.store, Job: n.w.o.Job.Name}
	if n.w.actsOnNaN() {
		return requests.FailLossNaN(ctx, &n.world, *mine)
	}
	return requests.LossNaN(ctx, &n.world, *mine)
}

// actsOnNaN reports whether the job has a rule for a loss that is not a number.
func (w *workers) actsOnNaN() bool {
	rule := w.job.Load().Rules.OnNaN
	return rule == rendezvous.NaNFails || rule == rendezvous.NaNRollback
}

// lastProgress returns the last step that a worker reported in a run directory. Where a loss was not a
// number, and the job has a rule for that, it is the step of that loss.
func (w *workers) lastProgress(dir string) (step *int64, nan bool) {
	tail := progress.NewTail(progressFile(dir))
	p, _ := tail.Read()
	if at, seen := tail.LossNaN(); seen && w.actsOnNaN() {
		return at, true
	}
	return p.Step, false
}
