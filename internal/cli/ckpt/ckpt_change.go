package ckpt

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// remove removes a checkpoint from the record. The holders then delete it from their disks.
func (k *saves) remove(ctx context.Context) error {
	for {
		h, err := k.wanted()
		if err != nil {
			return err
		}
		if err := k.unused(h); err != nil {
			return err
		}
		job := k.snap.Job
		record := &checkpoint.Record{Store: k.s, Job: job.Name, UID: job.UID, By: "the operator"}
		err = record.Drop(ctx, k.snap.Fence, k.snap.Head, []checkpoint.Head{h})
		if err == nil {
			return k.printResult(map[string]any{"job": job.Name, "number": h.Number, "removed": true},
				"checkpoint %d of job %s removed", h.Number, job.Name)
		}
		if !store.Moved(err) {
			return err
		}
		if k.snap, err = target.ReadJob(ctx, k.s, job.Name); err != nil {
			return err
		}
	}
}

// unused fails if a checkpoint is still needed: the head, because the next world starts from it,
// and the checkpoint of the newest world, because nodes may still fetch it.
func (k *saves) unused(h checkpoint.Head) error {
	head, w := k.snap.Head, k.snap.World
	switch {
	case h.Number == head.Number:
		return problem.New(problem.CkptUsed, "checkpoint %d is the newest of job %s", h.Number,
			k.snap.Job.Name).
			Because("the next world starts from it").Cure("elastic ckpt restore of another one first")
	case h.Manifest == head.Manifest:
		return problem.New(problem.CkptUsed,
			"checkpoint %d is the same as checkpoint %d, the newest of job %s",
			h.Number, head.Number, k.snap.Job.Name).
			Because("the next world starts from it")
	case w != nil && w.Resume != nil && !w.Phase.Ended() &&
		(w.Resume.Number == h.Number || w.Resume.Manifest == h.Manifest):
		return problem.New(problem.CkptUsed, "generation %d of job %s started from checkpoint %d",
			w.Generation, k.snap.Job.Name, h.Number).
			Because("its nodes may still need it").Cure("again after the next generation has begun")
	}
	return nil
}

// restore commits an earlier checkpoint again, under a new number.
func (k *saves) restore(ctx context.Context) error {
	for {
		h, err := k.wanted()
		if err != nil {
			return err
		}
		job, head := k.snap.Job.Name, k.snap.Head
		if h.Manifest == head.Manifest {
			return k.restored(h, head, fmt.Sprintf("job %s is at checkpoint %d already", job, h.Number))
		}
		if why := txn.Unrestorable(&k.snap); why != "" {
			e := problem.New(problem.JobLive, "job %s cannot go back to checkpoint %d now: %s", job, h.Number, why).
				Cure("elastic stop %s; then elastic ckpt restore %s %d", job, job, h.Number)
			if target.Ended(&k.snap) {
				e.Code = problem.JobEnded
				e.Cure("elastic ckpt get %s %d DIR has its files", job, h.Number)
			}
			return e
		}
		now, err := txn.Requests{Store: k.s, Job: job}.Restore(ctx, &k.snap, h)
		if err == nil {
			if here, away := k.holdersOf(h); len(here) == 0 && len(away) > 0 {
				k.Out.Say("it is on nodes that are not registered: %s; the job needs one of them",
					phrase.List(away))
			} else if len(here) == 0 {
				k.Out.Say("no node says that it has it; the job needs the --state-dir of a node that had it: %s",
					phrase.List(refNames(h.Holders)))
			}
			return k.restored(h, now,
				fmt.Sprintf("job %s goes on from checkpoint %d%s, which is checkpoint %d now",
					job, h.Number, atStep(h.Step), now.Number))
		}
		if !store.Moved(err) {
			return err
		}
		if k.snap, err = target.ReadJob(ctx, k.s, job); err != nil {
			return err
		}
	}
}

func (k *saves) restored(from, to checkpoint.Head, text string) error {
	result := map[string]any{"job": k.snap.Job.Name, "restored": from.Number,
		"number": to.Number, "step": to.Step}
	return k.printResult(result, "%s", text)
}

// printResult prints the result on stdout.
func (k *saves) printResult(object map[string]any, format string, args ...any) error {
	if k.Out.Json {
		return k.Out.Object(object)
	}
	return k.Out.Line(format, args...)
}

func atStep(step *int64) string {
	if step == nil {
		return ""
	}
	return fmt.Sprintf(" (step %d)", *step)
}
