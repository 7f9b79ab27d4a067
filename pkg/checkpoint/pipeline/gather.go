package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// gatherIfDue calls gather if the last call was gatherEvery ago.
func (l *Pipeline) gatherIfDue(ctx context.Context) error {
	s := l.sharing
	if s == nil || !s.lead || len(s.pending) == 0 || time.Since(s.gathered) < gatherEvery {
		return nil
	}
	return l.gather(ctx)
}

// gather commits the newest save of which every member has a part. It returns nil too if there is
// none.
func (l *Pipeline) gather(ctx context.Context) error {
	s := l.sharing
	if !s.lead || len(s.pending) == 0 {
		return nil
	}
	s.gathered = time.Now()
	reports, err := l.replicator.Record.ReadParts(ctx, l.stamp.Generation)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return nil // gather runs again at the next report, or after gatherEvery
	}
	mine := parts.Report{Generation: l.stamp.Generation, Node: s.self, Closed: true}
	for _, x := range s.pending {
		mine.Parts = append(mine.Parts, x.Part)
	}
	reports = slices.DeleteFunc(reports, func(r parts.Report) bool { return r.Node.Same(s.self) })
	s.choice = parts.Choose(s.Members, l.stamp.Generation, append(reports, mine))
	if s.choice.Parts == nil {
		l.reportLacking(s.choice.Step, s.choice.Lacks)
		return nil
	}
	return l.commitParts(ctx, s.choice)
}

// reportLacking reports what the newest save waits for, from time to time.
func (l *Pipeline) reportLacking(step int64, what string) {
	s, now := l.sharing, time.Now()
	if s.waits.IsZero() {
		s.waits = now
	}
	if what == "" || now.Sub(s.waits) < lackingAfter || !s.said.IsZero() && now.Sub(s.said) < lackingAgain {
		return
	}
	s.said = now
	how := ""
	if !s.All {
		how = "; if rank 0 writes all of a save, run with --save-from=rank0"
	}
	l.refuse(capture.Refusal{Reason: capture.MissingPart, Step: &step,
		Err: fmt.Errorf("%w: step %d: %s%s", capture.ErrNotYet, step, what, how)})
}

// commitParts commits the parts as one checkpoint.
func (l *Pipeline) commitParts(ctx context.Context, c parts.Choice) error {
	s := l.sharing
	var hashes []manifest.Hash
	for _, x := range c.Parts {
		hashes = append(hashes, x.Manifest)
	}
	if slices.Equal(hashes, s.failed) {
		s.choice.Lacks = s.shard
		l.reportLacking(c.Step, s.shard)
		return nil // another capture may have the missing shard
	}
	at := slices.IndexFunc(s.pending, func(x pendingPart) bool { return x.Sequence == c.Parts[0].Sequence })
	own := s.pending[at]
	x, err := l.merge(ctx, c.Parts)
	var head manifest.Head
	if err == nil {
		head, err = l.protectParts(ctx, x)
	}
	inParts := err == nil
	if errors.Is(err, errTooFewParts) { // one node may still collect all parts, if each part can be fetched
		err = l.assemble(ctx, x)
	}
	var missing *missingShardError
	var mixed *mixedPartsError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &missing):
		s.failed, s.shard, s.choice.Lacks = hashes, missing.Error(), missing.Error()
		l.reportLacking(c.Step, s.shard)
		return nil
	case errors.Is(err, chunkstore.ErrFenced):
		l.refuse(capture.Refusal{Reason: capture.Fenced, Path: own.m.Entry, Step: own.m.Step, Err: err})
		return err
	case err != nil && !errors.As(err, &mixed) && l.mayRead(c):
		s.choice.Lacks = err.Error()
		return nil // gatherIfDue tries again
	case err != nil:
		s.release(own.Sequence)
		l.refuse(capture.Refusal{Reason: cmp.Or(reason(err), capture.MixedParts), Path: own.m.Entry,
			Step: own.m.Step, Err: fmt.Errorf("step %d: %w", c.Step, err)})
		return l.report(ctx)
	}
	s.waits, s.said, s.failed, s.unread = time.Time{}, time.Time{}, nil, time.Time{}
	if inParts {
		l.afterCommit(ctx, own.picture, x.Manifest, head)
	} else if err := l.carry(ctx, own.picture, x.Manifest, x.hash); err != nil {
		return err
	}
	s.release(own.Sequence)
	return l.report(ctx)
}

// mayRead reports whether parts that could not be read should be tried again. It is true for a
// limited time, while a node that has it is registered for each part.
func (l *Pipeline) mayRead(c parts.Choice) bool {
	s := l.sharing
	if s.unread.IsZero() {
		s.unread = time.Now()
	}
	nodes, _ := l.replicator.View()
	registered := func(r membership.Ref) bool {
		return slices.ContainsFunc(nodes, func(n membership.Node) bool { return n.Same(r) })
	}
	for _, x := range c.Parts {
		if !registered(x.Node) && !slices.ContainsFunc(x.Holders, registered) {
			s.unread = time.Time{}
			return false
		}
	}
	if time.Since(s.unread) < partPatience {
		return true
	}
	s.unread = time.Time{}
	return false
}

// settle is called after the workers ended. It waits until the newest part is committed or cannot
// be.
func (l *Pipeline) settle(ctx context.Context) error {
	s := l.sharing
	if s == nil {
		return nil
	}
	if !s.lead {
		return l.settleFollowing(ctx)
	}
	if !s.All && !s.found {
		others, err := l.replicator.Record.ReadParts(ctx, l.stamp.Generation)
		if err != nil || len(others) == 0 {
			return l.complete(ctx) // no other node waits for this one
		}
	}
	for began := time.Now(); ; {
		if err := l.gather(ctx); err != nil {
			return err
		}
		if len(s.pending) == 0 {
			break
		}
		if s.choice.Final || time.Since(began) > partPatience {
			newest := s.pending[len(s.pending)-1]
			l.refuse(capture.Refusal{Reason: capture.MissingPart, Path: newest.m.Entry, Step: newest.m.Step,
				Err: fmt.Errorf("step %d: %s", newest.Step,
					cmp.Or(s.choice.Lacks, "the parts of the other nodes are not known"))})
			break
		}
		if err := pause(ctx, s.news); err != nil {
			return err
		}
	}
	s.closed = true
	if err := l.report(ctx); err != nil {
		return err
	}
	return l.complete(ctx)
}

// settleFollowing keeps the newest part of this node until rank 0's node has committed it, or has
// closed its report.
func (l *Pipeline) settleFollowing(ctx context.Context) error {
	s := l.sharing
	if !s.All && !s.found {
		return nil
	}
	s.closed = true
	if err := l.report(ctx); err != nil {
		return err
	}
	for began := time.Now(); len(s.pending) > 0 && time.Since(began) < partPatience; {
		reports, err := l.replicator.Record.ReadParts(ctx, l.stamp.Generation)
		if errors.Is(err, chunkstore.ErrFenced) {
			return err
		}
		if err == nil && slices.ContainsFunc(reports,
			func(r parts.Report) bool { return r.Closed && r.Node.Same(s.Members[0]) }) {
			return nil
		}
		if head, _, err := l.replicator.Read(ctx); err == nil {
			l.settled(head)
		}
		if len(s.pending) == 0 {
			return nil
		}
		if err := pause(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// watchParts signals changes of the reports of a generation, until ctx ends.
func watchParts(ctx context.Context, r *checkpoint.Record, g schema.Generation, news chan<- struct{}) {
	prefix := r.Job.Parts(g)
	tell := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		if read, err := r.Store.Get(ctx, prefix, store.End(prefix)); err == nil {
			tell()
			watching, stop := context.WithCancel(ctx)
			for c := range r.Store.Watch(watching, prefix, store.End(prefix), read.Rev+1) {
				if len(c.Events) > 0 {
					tell()
				}
			}
			stop()
		}
		_ = pause(ctx, nil) // the loop then checks ctx
	}
}
