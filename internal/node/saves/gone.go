package saves

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
)

const (
	// storeEvery is how often watchStore looks at the directories of the store.
	storeEvery = 2 * time.Second
	// leaveAfter is how long a node without a store waits before it leaves. Within this time the
	// other nodes tell if their stores were removed too.
	leaveAfter = 5 * time.Second
)

// places are directories, with what was there when the store was opened.
type places struct {
	stat func(dir string) (fs.FileInfo, error)
	was  map[string]dirfs.FileID
}

// look returns what is in the place of each directory now.
func look(stat func(dir string) (fs.FileInfo, error), dirs []string) (places, error) {
	p := places{stat, map[string]dirfs.FileID{}}
	for _, dir := range dirs {
		fi, err := stat(dir)
		if err != nil {
			return p, err
		}
		p.was[dir] = dirfs.StateOf(fi).ID()
	}
	return p, nil
}

// gone reports whether one of the directories was removed or replaced. A file system that fails
// does not tell.
func (p places) gone() bool {
	for dir, was := range p.was {
		now, err := p.stat(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) ||
			err == nil && dirfs.StateOf(now).ID() != was {
			return true
		}
	}
	return false
}

// back reports whether all directories are there as before.
func (p places) back() bool {
	for dir, was := range p.was {
		if now, err := p.stat(dir); err != nil || dirfs.StateOf(now).ID() != was {
			return false
		}
	}
	return true
}

// pause waits for d, and returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Gone has the reason when this node must leave, because its store was removed.
func (s *Saves) Gone() <-chan error { return s.gone }

// watchStore looks after the directories of the store until ctx ends. If they are removed or replaced, this
// agent still has the old ones open, and the next agent would not find them. So the node takes nothing more.
// It leaves as soon as other nodes have the newest checkpoint: they make the copies that were lost, as after
// the loss of a machine. As long as they do not have it, the state of the workers is all that there is, so
// the node stays until its workers have ended.
func (s *Saves) watchStore(ctx context.Context, was places, k *replicator.Replicator) {
	for pause(ctx, storeEvery) {
		if was.gone() {
			k.Store.Abandon()
			s.c.Notice(fmt.Sprintf("%s was removed or replaced while this agent has it open: this node takes "+
				"no save and no copy of a checkpoint. It leaves the job when its workers end, or as soon as "+
				"other nodes have the newest checkpoint: then start this agent again", s.storeDir()))
			if !s.awaitReturn(ctx, was, k) {
				return
			}
			k.Store.Return()
			s.c.Notice(fmt.Sprintf("%s is back: this node takes saves and copies again", s.storeDir()))
		}
	}
}

// awaitReturn waits until the directories are back. Meanwhile it lets the node leave. It returns false
// when ctx ends.
func (s *Saves) awaitReturn(ctx context.Context, was places, k *replicator.Replicator) bool {
	for removed := time.Now(); pause(ctx, storeEvery); {
		if was.back() {
			return true
		}
		head, _, err := k.Record.Read(ctx)
		if err != nil || head.Number == 0 || time.Since(removed) < leaveAfter {
			continue
		}
		if kept, err := s.keptElsewhere(ctx, k, head); err == nil && kept {
			s.leave()
		}
	}
	return false
}

// leave signals Gone, once.
func (s *Saves) leave() {
	select {
	case s.gone <- problem.New(problem.StateDir,
		"the checkpoints of this node were removed while its agent ran: %s", s.storeDir()).
		Cure("start this agent again: it makes the directory, and other nodes give it what it needs"):
	default: // it was signalled before
	}
}

// keptElsewhere reports whether other nodes that are here have all of a checkpoint. A part counts
// on a node that had it at the commit, and whose disk is not gone.
func (s *Saves) keptElsewhere(
	ctx context.Context, k *replicator.Replicator, head checkpoint.Head,
) (bool, error) {
	whole, err := othersWith(ctx, k, head.Number)
	if err != nil {
		return false, err
	}
	withDisk, err := k.Record.WithDisk(ctx)
	s.mu.Lock()
	nodes := s.nodes
	s.mu.Unlock()
	copies := head.CopiesAt(whole, func(node string) bool {
		return node != k.Self && slices.Contains(withDisk, node) &&
			slices.ContainsFunc(nodes, func(n membership.Node) bool { return n.Node == node })
	})
	return copies > 0, err
}

// othersWith returns the other registered nodes whose inventory has all of a checkpoint.
func othersWith(ctx context.Context, k *replicator.Replicator, n checkpoint.Number) ([]string, error) {
	all, err := k.Record.InventoryHolders(ctx, n)
	var names []string
	for _, node := range all {
		if node.Node != k.Self {
			names = append(names, node.Node)
		}
	}
	return names, err
}
