package ckpt

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// A checkpoint that this user may not read is on this machine: the reason says so, in one line.
func TestCheckpointThatMayNotBeRead(t *testing.T) {
	k := &saves{Call: &command.Call{}, snap: rendezvous.Snapshot{Job: &rendezvous.Job{Name: "x"}}}
	h := checkpoint.Head{Number: 3, Holders: []membership.Ref{{Node: "a"}}}
	away := k.unreadable(h, checkpoint.ErrNotHeld)
	if !strings.Contains(away.Why, "nothing of it is on this machine") {
		t.Errorf("it says %q", away.Why)
	}
	denied := fmt.Errorf("openat manifests/1: %w", fs.ErrPermission)
	e := k.unreadable(h, errors.Join(checkpoint.ErrNotHeld, denied))
	if !strings.Contains(e.Why, "; openat manifests/1: permission denied") || strings.Contains(e.Why, "\n") ||
		!strings.Contains(e.Fix, "as the user of the agent") {
		t.Errorf("it says %q, fix %q", e.Why, e.Fix)
	}
}
