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
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
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

// The nodes that have a checkpoint are registered, and this machine does not reach them.
func TestHoldersThatDoNotAnswer(t *testing.T) {
	a := membership.Node{Ref: membership.Ref{Node: "a"}}
	k := &saves{Call: &command.Call{Command: command.Command{Name: "ckpt get"}},
		snap: rendezvous.Snapshot{Job: &rendezvous.Job{Name: "x"}, Nodes: []membership.Node{a}}}
	err := fmt.Errorf("node a: %w: connection refused", transfer.ErrNoAnswer)
	e := k.unreadable(checkpoint.Head{Number: 3, Holders: []membership.Ref{a.Ref}}, err)
	if !strings.Contains(e.Why, "from the nodes that have it: a (node a: no answer: connection refused)") ||
		!strings.Contains(e.Fix, "on a machine that reaches one of them") {
		t.Errorf("it says %q, fix %q", e.Why, e.Fix)
	}
}

// The list marks the newest checkpoint.
func TestListMarksTheNewest(t *testing.T) {
	var out strings.Builder
	head := checkpoint.Head{Number: 3}
	state := t.TempDir()
	k := &saves{Call: &command.Call{Out: screen.Printer{Out: &out},
		App: command.App{Getenv: func(string) string { return state }}},
		snap: rendezvous.Snapshot{Job: &rendezvous.Job{Name: "x"}, Head: head,
			History: []checkpoint.Head{{Number: 1}, {Number: 2}, head}}}
	if err := k.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(out.String(), "\n") {
		number, _, _ := strings.Cut(l, " ")
		if newest := strings.Contains(l, "head"); newest != (number == "3") {
			t.Errorf("it prints %q", l)
		}
	}
}
