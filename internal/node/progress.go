package node

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/hang"

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
	return progress.NewTail(progress.FileOf(dir))
}

// reporter passes on the progress that rank 0's worker reports, until its group ends. A report that
// is lost does no harm: the next one replaces it. Where steps stay away it looks at all ranks.
type reporter struct {
	w     *workers
	world rendezvous.World
	tail  *progress.Tail
	watch *hang.Watch // nil: the processes of this world cannot be looked at

	last    rendezvous.Progress // the newest report
	curve   progress.Curve      // of this generation and earlier ones
	lookout hang.Lookout
	slow    hang.Slowness
}

func (r *reporter) run(ctx context.Context, done <-chan struct{}) {
	if r.w.o.Progress != nil {
		defer r.w.o.Progress(rendezvous.Progress{}) // the workers of this generation have ended
	}
	r.curve = r.w.curve(ctx)
	if note := r.w.saves.Counted(r.world); note != "" {
		r.w.notice(fmt.Sprintf("generation %d: %s", r.world.Generation, note))
		r.last = rendezvous.Progress{Generation: r.world.Generation, Note: note, Time: time.Now()}
		r.write(ctx, txn.SameStall)
	}
	r.lookout = hang.Lookout{Least: r.w.o.HangLook, Earlier: r.w.stepped.Load()}
	tick := time.NewTimer(membership.UntilTick(time.Now(), progressEvery))
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(membership.UntilTick(time.Now(), progressEvery))
			r.lookout.Quiet(progressEvery)
		}
		p, ok := r.tail.Read()
		switch {
		case ok:
			r.stepped(ctx, p)
			r.pace(ctx)
		case !ended && r.watch != nil && r.lookout.Due():
			r.look(ctx)
		}
	}
}

// stepped passes on new progress. It withdraws what a look found before.
func (r *reporter) stepped(ctx context.Context, p rendezvous.Progress) {
	p.Generation = r.world.Generation
	if p.Step != nil || p.Samples != nil {
		usual := time.Duration(0)
		if p.Interval != nil {
			usual = time.Duration(*p.Interval)
		}
		r.lookout.Step(usual)
		r.w.stepped.Store(true)
	}
	r.w.kubeflow.Tell(p)
	if r.w.o.Progress != nil {
		r.w.o.Progress(p)
	}
	stalled := r.last.Stall != nil
	p.Note, p.Slow = r.last.Note, r.last.Slow
	if r.last = p; stalled {
		r.w.notice(fmt.Sprintf("generation %d makes steps again", p.Generation))
		r.write(ctx, txn.StallOver)
		return
	}
	r.write(ctx, txn.SameStall)
}

// look looks at all ranks, and says what it found.
func (r *reporter) look(ctx context.Context) {
	stall := r.watch.Look(ctx).Stall(r.lookout.Since())
	r.lookout.Looked()
	before := r.last.Stall
	r.last.Generation, r.last.Stall = r.world.Generation, stall
	if before != nil && before.Same(stall) {
		r.write(ctx, txn.SameStall)
		return
	}
	r.w.notice(fmt.Sprintf("generation %d: %s", r.world.Generation, stall))
	r.write(ctx, txn.Stalled)
}

// pace looks, now and then, for a rank that makes the others wait.
func (r *reporter) pace(ctx context.Context) {
	slow, first := r.slow.After(ctx, r.watch, progressEvery)
	if r.last.Slow = slow; first {
		r.w.notice(fmt.Sprintf("generation %d: %s", r.world.Generation, slow))
		r.write(ctx, txn.Slowed)
	}
}

// write writes the newest report. The error is ignored: the next report replaces a lost one.
func (r *reporter) write(ctx context.Context, change txn.StallChange) {
	job := r.w.o.Job.Name
	report := txn.Report{Progress: r.last, Change: change}
	if next, due := r.curve.With(r.last); due && r.last.Stall == nil {
		r.curve, report.Also = next, []store.Write{store.Put(job.Curve(), schema.Encode(next))}
	}
	_ = txn.Requests{Store: r.w.store, Job: job}.Progress(ctx, &r.world, report)
}

// curve returns the curve of earlier generations; an empty one if it cannot be read.
func (w *workers) curve(ctx context.Context) (c progress.Curve) {
	r, err := w.store.Get(ctx, w.o.Job.Name.Curve(), "")
	if err != nil || r.One() == nil {
		return c
	}
	c, _ = schema.Decode[progress.Curve](r.One())
	return c
}
