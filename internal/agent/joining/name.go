package joining

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
)

const (
	lockLimit = 2 * time.Second       // for the lock of a node whose agent is ending
	lockAgain = 50 * time.Millisecond // between two tries
)

// name returns the name that this agent takes, with its lock: the first free one.
func (j *Joiner) name(ctx context.Context) (string, func(), error) {
	if j.state.unlock != nil {
		return j.state.node, func() {}, nil
	}
	for k := 1; ; k++ {
		name := j.candidate(k)
		unlock, err := j.lock(ctx, name)
		if errors.Is(err, message.ErrLocked) && !j.NodeGiven {
			continue
		}
		return name, unlock, err
	}
}

// candidate is the k-th name that this node may have, from 1 on.
func (j *Joiner) candidate(k int) string {
	if k == 1 {
		return j.Node
	}
	return fmt.Sprintf("%s-%d", j.Node, k)
}

// lock takes the lock of a node name. If the given name is that of an agent that was killed a
// moment ago, the lock is held until the kernel has written that agent's data, so lock waits for
// it.
func (j *Joiner) lock(ctx context.Context, name string) (func(), error) {
	for {
		unlock, err := j.Disk.Lock(name)
		if !errors.Is(err, message.ErrLocked) || !j.NodeGiven {
			return unlock, err
		}
		if j.state.lockUntil.IsZero() {
			j.state.lockUntil = time.Now().Add(lockLimit)
		}
		if !time.Now().Before(j.state.lockUntil) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lockAgain): // a file lock cannot be watched
		}
	}
}
