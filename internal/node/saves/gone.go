package saves

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/refusal"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
)

const (
	// storeEvery is how often watchStore looks at the directory of the store.
	storeEvery = 2 * time.Second
	// leaveAfter is how long a node without a store waits before it leaves. Within this time the
	// inventories of the other nodes show if their stores were removed too.
	leaveAfter = 5 * time.Second
)

// watchStore returns true when the directory of the store is removed or replaced, and false when ctx
// ends. This agent still has the old directory open, and the next agent would not find it.
func watchStore(ctx context.Context, dir string) bool {
	was, err := os.Stat(dir)
	for err == nil && pause(ctx, storeEvery) {
		now, gone := os.Stat(dir)
		if errors.Is(gone, fs.ErrNotExist) || gone == nil && !os.SameFile(was, now) {
			return true
		}
	}
	return false
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

// leaveWithoutStore tells the user that dir was removed, and signals Gone as soon as other nodes have
// the newest checkpoint. Then they make the copies that were lost, as after the loss of a machine. As long
// as they do not have it, the state of the workers is all that there is, so they go on.
func (s *Saves) leaveWithoutStore(ctx context.Context, dir string, k *replicator.Replicator) {
	k.Store.Abandon()
	s.mu.Lock()
	s.removed = true
	s.mu.Unlock()
	s.c.Notice(fmt.Sprintf("%s was removed while this agent has it open: this node takes no save and no copy "+
		"of a checkpoint", dir))
	for wait := leaveAfter; pause(ctx, wait); wait = storeEvery {
		head, _, err := k.Record.Read(ctx)
		if err != nil || head.Number == 0 {
			continue
		}
		if kept, err := s.keptElsewhere(ctx, k, head); err == nil && kept {
			s.gone <- fmt.Errorf("%w: %s", refusal.ErrStoreRemoved, dir)
			return
		}
	}
}

// keptElsewhere reports whether other nodes that are here have all of a checkpoint.
func (s *Saves) keptElsewhere(
	ctx context.Context, k *replicator.Replicator, head checkpoint.Head,
) (bool, error) {
	whole, err := othersWith(ctx, k, head.Number)
	s.mu.Lock()
	nodes := s.nodes
	s.mu.Unlock()
	copies := head.CopiesAt(whole, func(node string) bool {
		return node != k.Self &&
			slices.ContainsFunc(nodes, func(n membership.Node) bool { return n.Node == node })
	})
	return copies > 0, err
}

// othersWith returns the other registered nodes whose inventory has all of a checkpoint.
func othersWith(ctx context.Context, k *replicator.Replicator, n checkpoint.Number) ([]string, error) {
	all, err := k.Record.Claimants(ctx, n)
	var names []string
	for _, node := range all {
		if node.Node != k.Self {
			names = append(names, node.Node)
		}
	}
	return names, err
}
