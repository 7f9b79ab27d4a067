package saves

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/store"
)

// report is told by the replicator what happens.
func (s *Saves) report(e replicator.Event) {
	switch e := e.(type) {
	case replicator.Committed:
		s.node.Activity.Nothing()
		s.wrote(2) // the commit, and the removal of the oldest
		s.mu.Lock()
		s.head = e.Head
		alone := e.Head.Copies < 2 && s.replicator.Replicas > 1
		first := alone && !s.alone
		s.alone = alone
		s.mu.Unlock()
		if first {
			s.c.Notice(fmt.Sprintf("checkpoint %d%s is on this node alone until another one is "+
				"here", e.Head.Number, checkpoint.AtStep(e.Head.Step)))
		}
	case replicator.Closed:
		if m := e.Left; m != nil {
			s.c.Notice(fmt.Sprintf("the last save%s of generation %d is on this disk and could not "+
				"be committed; it counts if this node comes back before the others go on",
				checkpoint.AtStep(m.Step), e.Generation))
		}
	case replicator.Behind:
		select {
		case s.behind <- struct{}{}:
		default: // it is on its way
		}
	case replicator.Sharded:
		s.c.Notice(e.String())
	case replicator.LoadsAll:
		s.mu.Lock()
		said := s.loadsAll == e
		s.loadsAll = e
		s.mu.Unlock()
		if !said {
			s.c.Notice(e.String())
		}
	case replicator.Refused:
		s.refused(e)
	case replicator.Moving:
		what := map[string]string{"replicate": "saving", "fetch": "fetching"}[e.What]
		if e.Done == e.Total {
			s.node.Activity.Nothing()
			return
		}
		s.node.Activity.Moving(what, e.Done, e.Total)
	}
}

// refused tells the user, and in an event all others, that a save was not taken.
func (s *Saves) refused(e replicator.Refused) {
	s.node.Activity.Nothing()
	text := s.refusal(e)
	s.c.Notice(text)
	s.c.Effects.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		// The refusal was said; that its event is lost with the store is no harm.
		_, _ = s.c.Store.Txn(ctx, store.Txn{Then: []store.Write{history.Tell(s.c.Job,
			history.Event{Kind: history.Refused,
				Generation: e.Generation, Node: s.replicator.Self, Text: text,
				Fields: history.Fields{"reason": e.Reason, "step": e.Step, "path": e.Path}})}})
	})
	s.wrote(1)
}

// refusal says in one line why a save was not taken, and what to do.
func (s *Saves) refusal(e replicator.Refused) string {
	why := strings.ReplaceAll(e.Err.Error(), "\n", "; ") // of several errors
	switch {
	case errors.Is(e.Err, capture.ErrUnsettled):
		return why
	case e.Reason == capture.NoSpace:
		return fmt.Sprintf(
			"the save %s was not taken (%s): %s; make room on the disk of %s, or use a smaller --keep",
			e.Path, e.Reason, why, s.node.Dir)
	case e.Reason == capture.Disk:
		return fmt.Sprintf(
			"the save %s was not taken (%s): %s; check the disk of %s and the permissions in it",
			e.Path, e.Reason, why, s.node.Dir)
	case e.Reason == capture.Unreadable:
		return fmt.Sprintf(
			"no save is taken (%s): %s; make all of %s readable for the user of this agent, or move "+
				"out of it what is no part of a save", e.Reason, why, s.node.Directory.Path)
	}
	return fmt.Sprintf("a save was not taken (%s): %s", e.Reason, why)
}

// wrote counts n transactions with events, and has old events removed when it is time.
func (s *Saves) wrote(n int) {
	s.c.Effects.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, trimLimit)
		defer cancel()
		_ = s.trimmer.Wrote(ctx, n) // the next call removes the rest
	})
}

// trimLimit is how long the removal of old events may take.
const trimLimit = 30 * time.Second
