package saves

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/store"
)

// report handles an event of the replicator.
func (s *Saves) report(e replicator.Event) {
	switch e := e.(type) {
	case replicator.Committed:
		s.node.Activity.Nothing()
		s.wrote(2) // the commit writes an event, and so does the removal of the oldest checkpoint
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
				"be committed; it is used only if no newer generation begins without it",
				checkpoint.AtStep(m.Step), e.Generation))
		}
	case replicator.Late:
		s.c.Notice(fmt.Sprintf("node %s lives, and took no copy of a checkpoint in time: its disk, or the "+
			"network to it, stands still; for half a minute other nodes are asked first", e.Node))
	case replicator.Behind:
		select {
		case s.behind <- struct{}{}:
		default: // an earlier signal was not read yet
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
	case replicator.Damaged:
		s.damaged(e)
	case replicator.Moving:
		what := map[string]string{"replicate": "saving", "fetch": "fetching"}[e.What]
		if e.Done == e.Total {
			s.node.Activity.Nothing()
			return
		}
		s.node.Activity.Moving(what, e.Done, e.Total)
	}
}

// refused reports to the user, and in a history event, that a save was not taken.
func (s *Saves) refused(e replicator.Refused) {
	s.node.Activity.Nothing()
	if e.Reason == capture.NoSpace || e.Reason == capture.Disk {
		s.c.Blame(machines.Disk, s.refusal(e))
	}
	s.tell(history.Event{Kind: history.Refused, Generation: e.Generation, Text: s.refusal(e),
		Fields: history.Fields{"reason": e.Reason, "step": e.Step, "path": e.Path}})
}

// damaged reports to the user, and in a history event, that a checkpoint on this disk is damaged.
func (s *Saves) damaged(e replicator.Damaged) {
	h := e.Head
	text := fmt.Sprintf("checkpoint %d%s", h.Number, checkpoint.AtStep(h.Step))
	switch {
	case e.Err == nil && e.Where == "":
		text += " is whole again on this disk: another node had what was damaged"
	case e.Err == nil:
		text += fmt.Sprintf(" was damaged on this disk (%s), and what was damaged is fetched again from "+
			"another node; see to the disk of %s if that happens again", e.Where, s.node.Dir)
	default:
		text += fmt.Sprintf(
			" is damaged on this disk (%s), and no node that is here has it whole; bring back a node "+
				"that has it (elastic ckpt ls %s), and see to the disk of %s: %s",
			e.Where, s.c.Job, s.node.Dir, oneLine(e.Err))
	}
	if e.Where != "" {
		s.c.Blame(machines.Disk, text)
	}
	s.tell(history.Event{Kind: history.Damaged, Generation: s.chunks.Generation(), Text: text,
		Fields: history.Fields{"number": h.Number, "where": e.Where, "mended": e.Err == nil}})
}

// slow reports that the disk took very long for a chunk of another node's checkpoint.
func (s *Saves) slow(took time.Duration) {
	text := fmt.Sprintf("the disk of %s took %v for one chunk of a checkpoint", s.node.Dir,
		took.Round(time.Second))
	s.c.Notice(text)
	s.c.Blame(machines.Disk, text)
}

// tell writes an event to the user of this node and to the history.
func (s *Saves) tell(e history.Event) {
	e.Node = s.replicator.Self
	s.c.Notice(e.Text)
	s.c.Effects.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		// The user has the text already, so an error of the store is ignored.
		_, _ = s.c.Store.Txn(ctx, store.Txn{Then: []store.Write{history.Tell(s.c.Job, e)}})
	})
	s.wrote(1)
}

// oneLine returns the text of an error, of several errors too, on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// refusal says in one line why a save was not taken, and what to do.
func (s *Saves) refusal(e replicator.Refused) string {
	why := oneLine(e.Err)
	switch {
	case errors.Is(e.Err, capture.ErrNotYet):
		return fmt.Sprintf("%s (%s)", why, e.Reason)
	case errors.Is(e.Err, chunkstore.ErrRemoved):
		return fmt.Sprintf("the save %s was not taken (%s): %s was removed or replaced while this agent ran; "+
			"start this agent again", e.Path, e.Reason, s.storeDir())
	case e.Reason == capture.NoSpace:
		return fmt.Sprintf(
			"the save %s was not taken (%s): %s; make room on the disk of %s, or use a smaller --keep",
			e.Path, e.Reason, why, s.node.Dir)
	case e.Reason == capture.Disk:
		return fmt.Sprintf(
			"the save %s was not taken (%s): %s; check the disk of %s and the permissions in it",
			e.Path, e.Reason, why, s.node.Dir)
	case e.Reason == capture.BadPath:
		return fmt.Sprintf("no save is taken (%s): %s; rename it, or move out of %s what is no part of a save",
			e.Reason, why, s.node.Directory.Path)
	case e.Reason == capture.Unreadable && errors.Is(e.Err, fs.ErrNotExist):
		return fmt.Sprintf("no save is taken (%s): %s; %s was removed or renamed while workers run: make it again",
			e.Reason, why, s.node.Directory.Path)
	case e.Reason == capture.Unreadable:
		return fmt.Sprintf(
			"no save is taken (%s): %s; make all of %s readable for the user of this agent, or move "+
				"out of it what is no part of a save", e.Reason, why, s.node.Directory.Path)
	}
	return fmt.Sprintf("a save was not taken (%s): %s", e.Reason, why)
}

// wrote counts n transactions with history events, and removes old events when there are too many.
func (s *Saves) wrote(n int) {
	s.c.Effects.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, trimLimit)
		defer cancel()
		_ = s.trimmer.Wrote(ctx, n) // after an error the next call removes them
	})
}

// trimLimit is how long the removal of old events may take.
const trimLimit = 30 * time.Second
