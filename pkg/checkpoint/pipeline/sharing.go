package pipeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/store"
)

// Writers are the workers of one node in one generation.
type Writers struct {
	capture.Workers
	With *Sharing // nil: they write whole saves
}

// Sharing describes a world in which each node writes a part of a save. The holders of parts are in the
// record of the commit only. If no registered node has a part, the next barrier waits for its holders.
type Sharing struct {
	Members []membership.Ref // by rank; the node of the first one commits
	All     bool             // each save has a part of each member; false: only saves in a shard format
}

// NewSharing returns the Sharing of a world with these members, by rank, for the node self. apart
// reports whether a node has another checkpoint directory than self. It returns nil if rank 0's
// node has whole saves.
func NewSharing(
	members []membership.Ref, self string, from checkpoint.SaveFrom, apart func(membership.Ref) bool,
) *Sharing {
	zero := members[0]
	lead := zero.Node == self
	if from == checkpoint.SaveFromRank0 || !lead && !apart(zero) {
		return nil
	}
	s := &Sharing{All: from == checkpoint.SaveFromAll, Members: []membership.Ref{zero}}
	for _, m := range members[1:] {
		if !lead || apart(m) {
			s.Members = append(s.Members, m)
		}
	}
	if len(s.Members) == 1 {
		return nil
	}
	return s
}

// share returns what the workers of a node write of a save, as far as that is known at their start.
func (w Writers) share(self string, resume *manifest.Manifest) capture.Share {
	s := w.With
	switch {
	case s == nil:
		return capture.Whole
	case s.Members[0].Node != self:
		return capture.Following
	case s.All || resume != nil && parts.Format(resume.Paths()) != "":
		return capture.Leading
	}
	return capture.Whole
}

// sharing is the state of a pipeline about the parts of saves. nil: saves have no parts.
type sharing struct {
	Sharing
	self     membership.Ref
	lead     bool
	found    bool // saves have parts, and that was reported
	news     <-chan struct{}
	pending  []pendingPart // not yet committed, oldest first
	captured []capturedStep
	sequence uint64 // of the newest capture
	rev      int64  // of this node's report
	closed   bool
	failed   []manifest.Hash // the parts of the last try, which lack a shard
	shard    string          // the missing shard
	gathered time.Time
	waits    time.Time // since when the newest save waits for parts
	said     time.Time
	unread   time.Time    // since when a part cannot be read
	choice   parts.Choice // the last result of parts.Choose
}

// pendingPart is a part that may still be committed.
type pendingPart struct {
	parts.Part
	picture *capture.Picture
	m       *manifest.Manifest
}

// capturedStep identifies the files that were captured of a step.
type capturedStep struct {
	step   int64
	digest manifest.Hash
}

const (
	partPatience   = 30 * time.Second // for the parts of other nodes after the workers ended
	gatherEvery    = 5 * time.Second  // while a part is pending, in case the watch misses a change
	lackingAfter   = 8 * time.Second
	lackingAgain   = time.Minute
	capturedSteps  = 1024 // how many are kept
	reportAttempts = 5
)

// silent reports whether refusals are not reported yet, because it is not known whether this node saves
// a part.
func (s *sharing) silent() bool { return s != nil && !s.lead && !s.All && !s.found }

// share starts to share saves with the other members.
func (l *Pipeline) share(ctx context.Context, with *Sharing) {
	if with == nil {
		return
	}
	at := slices.IndexFunc(with.Members, func(r membership.Ref) bool { return r.Node == l.replicator.Self })
	if at < 0 {
		return
	}
	l.sharing = &sharing{Sharing: *with, self: with.Members[at], lead: at == 0}
	if at == 0 {
		news := make(chan struct{}, 1)
		l.sharing.news = news
		l.away.Go(func() { watchParts(ctx, l.replicator.Record, l.stamp.Generation, news) })
	}
}

// reported receives a value when the reports of parts have changed.
func (l *Pipeline) reported() <-chan struct{} {
	if l.sharing == nil {
		return nil
	}
	return l.sharing.news
}

// classify marks a save as a part if it is one. It returns false if this node must not capture the
// save.
func (l *Pipeline) classify(p *capture.Picture) bool {
	s := l.sharing
	if s == nil {
		return true
	}
	format := parts.Format(pathsIn(p))
	switch {
	case s.All:
	case format == "":
		return s.lead
	case s.lead && wholeHere(p):
		return true // one node wrote all shards
	case !s.found:
		s.found = true
		l.replicator.Report(replicator.Sharded{Generation: l.stamp.Generation, Format: format})
	}
	p.Save.Part, p.Save.Of = true, s.self.Node
	return true
}

// wholeHere reports whether a picture is a whole save, judged by its file names.
func wholeHere(p *capture.Picture) bool {
	paths := pathsIn(p)
	return parts.Format(paths) == "" || parts.Alone(paths, namedBy(p))
}

// pathsIn returns the paths of the files in a picture.
func pathsIn(p *capture.Picture) (paths []string) {
	for _, f := range p.Save.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// namedBy returns the shards that the .metadata files of a picture name. A file that cannot be read
// names none. The picture then counts as a part.
func namedBy(p *capture.Picture) map[string][]string {
	named := map[string][]string{}
	for _, f := range p.Save.Files {
		if path.Base(f.Path) != parts.Metadata {
			continue
		}
		in, err := p.Save.Dir.Open(f.Path)
		if err != nil {
			continue
		}
		var scan shardScan
		if _, err := io.Copy(&scan, in); err == nil {
			named[f.Path] = scan.names()
		}
		_ = in.Close() // it was only read
	}
	return named
}

// digestOf returns a hash of the files in a manifest, without its marks, time and position.
func digestOf(m *manifest.Manifest) manifest.Hash {
	sum := sha256.New()
	for _, f := range m.Files {
		if !parts.IsMark(f.Path) {
			fmt.Fprintln(sum, f.Path, f.Size, f.Chunks)
		}
	}
	return manifest.Hash(sum.Sum(nil))
}

// addPart adds a part that is on this disk, and reports it.
func (l *Pipeline) addPart(
	ctx context.Context, p *capture.Picture, m *manifest.Manifest, h manifest.Hash,
) error {
	s := l.sharing
	s.sequence = m.Sequence
	if m.Step == nil {
		l.refuse(capture.Refusal{Reason: capture.MixedParts, Path: m.Entry,
			Err: fmt.Errorf("nothing tells its step, by which the parts of the nodes belong together; "+
				"name it by its step, like step-120, or write %s", ".elastic-commit")})
		return nil
	}
	digest, again := digestOf(m), false
	if at := slices.IndexFunc(s.captured, func(c capturedStep) bool { return c.step == *m.Step }); at >= 0 {
		if s.captured[at].digest == digest {
			return nil
		}
		s.captured[at].digest = digest
		again = !s.grown(m)
	} else {
		s.captured = append(s.captured, capturedStep{*m.Step, digest})
		s.captured = s.captured[max(0, len(s.captured)-capturedSteps):]
	}
	part := parts.Part{Step: *m.Step, Sequence: m.Sequence, Manifest: h, Files: len(m.Files),
		Bytes: m.Bytes(), Again: again, Holders: l.copyPart(ctx, h)}
	s.pending = slices.DeleteFunc(s.pending, func(x pendingPart) bool { return x.Step == *m.Step })
	s.pending = append(s.pending, pendingPart{part, p, m})
	s.pending = s.pending[max(0, len(s.pending)-manifest.MostParts):]
	if err := l.report(ctx); err != nil {
		return err
	}
	return l.gather(ctx)
}

// grown reports whether m has all files of the pending part of its step unchanged, and maybe more.
func (s *sharing) grown(m *manifest.Manifest) bool {
	at := slices.IndexFunc(s.pending, func(x pendingPart) bool { return x.Step == *m.Step })
	if at < 0 || s.pending[at].Again {
		return false
	}
	now := map[string]manifest.Chunks{}
	for _, f := range m.Files {
		now[f.Path] = f.Chunks
	}
	return !slices.ContainsFunc(s.pending[at].m.Files, func(f manifest.File) bool {
		chunks, there := now[f.Path]
		return !there || !slices.Equal(chunks, f.Chunks)
	})
}

// release removes the pending parts up to a sequence, which are committed or never will be.
func (s *sharing) release(sequence uint64) {
	s.pending = slices.DeleteFunc(s.pending, func(x pendingPart) bool { return x.Sequence <= sequence })
}

// settled releases the part that a head of this generation has committed, and older ones.
func (l *Pipeline) settled(head manifest.Head) {
	if head.Generation != l.stamp.Generation || head.Step == nil {
		return
	}
	for _, x := range l.sharing.pending {
		if x.Step == *head.Step {
			l.sharing.release(x.Sequence)
			return
		}
	}
}

// report writes the record of this node's parts. This disk may drop parts that are not in it.
func (l *Pipeline) report(ctx context.Context) error {
	s := l.sharing
	if head, _, err := l.replicator.Read(ctx); err == nil && !s.lead {
		l.settled(head)
	}
	r := parts.Report{Generation: l.stamp.Generation, Node: s.self, Closed: s.closed, Parts: []parts.Part{}}
	from := manifest.Position{Generation: l.stamp.Generation, Sequence: s.sequence + 1, Of: s.self.Node}
	for _, x := range s.pending {
		r.Parts = append(r.Parts, x.Part)
		from.Sequence = min(from.Sequence, x.Sequence)
	}
	l.replicator.KeepPartsFrom(from)
	for try := 1; ; try++ {
		rev, err := l.replicator.Record.ReportParts(ctx, r, s.rev)
		s.rev = rev
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, chunkstore.ErrFenced):
			return err
		case !store.Moved(err) || try == reportAttempts:
			l.refuse(capture.Refusal{Reason: capture.MissingPart,
				Err: fmt.Errorf("the part of this node cannot be reported: %w", err)})
			return nil
		}
	}
}
