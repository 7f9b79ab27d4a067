package ckpt

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
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

// The list marks the newest checkpoint, and one that the job went on without.
func TestListMarksOffers(t *testing.T) {
	var out strings.Builder
	head := checkpoint.Head{Number: 3}
	k := &saves{Call: &command.Call{Out: screen.Printer{Out: &out}},
		snap: rendezvous.Snapshot{Job: &rendezvous.Job{Name: "x"}, Head: head,
			History: []checkpoint.Head{{Number: 1}, {Number: 2, Offered: true}, head}}}
	if err := k.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(out.String(), "\n") {
		number, _, _ := strings.Cut(l, " ")
		offered := strings.Contains(l, "offered")
		if newest := strings.Contains(l, "head"); newest != (number == "3") || offered != (number == "2") {
			t.Errorf("it prints %q", l)
		}
	}
}
