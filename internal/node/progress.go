package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// progressEvery is how often progress is written to the store at most.
const progressEvery = 2 * time.Second

// tail reads the progress that rank 0's worker writes into its run directory.
func (w *workers) tail(dir string) *progress.Tail {
	if e := w.o.ProgressRegex; e != nil {
		return progress.NewLogTail(w.logs.Path(0), e)
	}
	return progress.NewTail(filepath.Join(dir, "progress.jsonl"))
}

// progress passes on the progress that rank 0's worker reports, until its group ends. A report that
// is lost does no harm: the next one replaces it.
func (w *workers) progress(
	ctx context.Context, done <-chan struct{}, world rendezvous.World, tail *progress.Tail,
) {
	if w.o.Progress != nil {
		defer w.o.Progress(rendezvous.Progress{}) // the workers of this generation have ended
	}
	tick := time.NewTimer(membership.UntilTick(time.Now(), progressEvery))
	defer tick.Stop()
	for ended, reported := false, false; !ended; {
		select {
		case <-done:
			ended = true
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(membership.UntilTick(time.Now(), progressEvery))
		}
		p, ok := tail.Read()
		if !ok {
			continue
		}
		p.Generation = world.Generation
		if tail.LossNaN() && !reported {
			reported = w.reportNaN(ctx, world, p.Step)
		}
		w.kubeflow.Tell(p)
		if w.o.Progress != nil {
			w.o.Progress(p)
		}
		job := w.o.Job.Name
		// The result and the error are ignored: the next report replaces a lost one.
		_, _ = w.store.Txn(ctx, store.Txn{
			If:   []store.Guard{schema.FenceIs(job, w.job.Load().UID, world.Generation)},
			Then: []store.Write{store.Put(job.Progress(), schema.Encode(p))},
		})
	}
}

// reportNaN reports that the loss is not a number, and ends the generation if the job has a rule
// for that. If the report fails, the next line sends it again.
func (w *workers) reportNaN(ctx context.Context, world rendezvous.World, step *int64) bool {
	rule := w.job.Load().Rules.OnNaN
	me := world.Members[0]
	requests := txn.Requests{Store: w.store, Job: w.o.Job.Name}
	report := requests.LossNaN
	if rule == rendezvous.NaNFails || rule == rendezvous.NaNRollback {
		report = requests.FailLossNaN
	}
	err := report(ctx, &world, rendezvous.Failure{Node: me.Node, Incarnation: me.Incarnation,
		Code: 1, Step: step, NaN: true, Time: time.Now()})
	return err == nil
}

// lastProgress returns the last step that a worker reported in a run directory, and whether its
// loss was not a number then.
func lastProgress(dir string) (step *int64, nan bool) {
	tail := progress.NewTail(filepath.Join(dir, "progress.jsonl"))
	p, _ := tail.Read()
	return p.Step, tail.LossNaN()
}
