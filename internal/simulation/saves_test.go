package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/node/saves"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// keptSaves is the saves of an agent. They are those of production, over the disks of its host, and it
// watches what is asked of them.
type keptSaves struct {
	*saves.Saves
	a       *simAgent
	effects *scope.Scope // ends with the process
	silent  atomic.Bool  // no node answers its requests for chunks and manifests

	// guarded by sim.mu
	chunks *chunkstore.Store
	met    map[membership.Incarnation]bool // that were registered while this agent was
}

func newKeptSaves(a *simAgent) *keptSaves {
	x := &keptSaves{a: a, effects: new(scope.Scope), met: map[membership.Incarnation]bool{}}
	x.Saves = saves.New(saves.Config{Job: a.s.job.Name, Store: a.client, Effects: x.effects,
		Peers: &checkpointtest.Peers{To: a.storeOf}, Serve: x.serve, Mark: &saves.Mark{},
		Notice: x.notice, Blame: func(machines.Kind, string) {},
		PreHook: func(context.Context, schema.Generation, int) error { return nil }})
	return x
}

// end waits until nothing of the process is left.
func (x *keptSaves) end() {
	x.effects.End()
	x.effects.Wait()
}

// join opens the saves of a node, as internal/node does.
func (x *keptSaves) join(node string, job rendezvous.Job) error {
	name := dirOf(node, job.Name, disk.WorkDir)
	if err := x.a.process.Mkdir(name); err != nil {
		return err
	}
	dir, err := x.a.process.Tree(name)
	if err != nil {
		return err
	}
	dir.(*memfs.FS).KeepNotes()
	return x.Join(saves.Node{Name: node, Store: x.a.disk.Store(node),
		Directory: capture.Dir{FS: dir, Exclude: []string{ownDir}, Boot: fmt.Sprint(x.a.host.boots)},
		Activity:  saves.NewDoing(x.effects, x.a.client, job.Name.Doing(node))}, job)
}

func (x *keptSaves) serve(chunks *chunkstore.Store, _ func(time.Duration)) {
	x.a.s.mu.Lock()
	defer x.a.s.mu.Unlock()
	x.chunks = chunks
}

// notice takes a line for the user.
func (x *keptSaves) notice(text string) {
	x.a.s.mu.Lock()
	defer x.a.s.mu.Unlock()
	x.a.s.tracef("%s notes: %s", x.a.label(), text)
	if strings.Contains(text, "("+string(capture.MissingPart)+")") {
		x.a.s.partless = text
	}
	if strings.Contains(text, "("+string(capture.Broken)+")") {
		x.a.s.doubts = append(x.a.s.doubts, doubt{time.Now(), x.a, len(x.a.groups)})
	}
}

func (x *keptSaves) Nodes(nodes []membership.Node, head checkpoint.Head) {
	x.a.s.mu.Lock()
	for _, n := range nodes {
		x.met[n.Incarnation] = true
	}
	x.a.s.mu.Unlock()
	x.Saves.Nodes(nodes, head)
}

// ended tells the saves that the workers of g have ended, as internal/node does. mu is held.
func (x *keptSaves) ended(g schema.Generation, how *message.WorkerExit) {
	state := capture.Killed
	switch {
	case !x.a.s.exits || how == nil || how.Signal != "":
	case how.Code == 0 || message.StatusOfAsked(how.Code):
		state = capture.Exited
	default:
		state = capture.Failed
	}
	x.WorkersEnded(g, state)
}

// storeOf returns the store of a live, reachable node. A frozen node does not answer, and a frozen
// agent does not ask.
func (a *simAgent) storeOf(ctx context.Context, op string, ref membership.Ref) (*chunkstore.Store, error) {
	s := a.s
	time.Sleep(s.rng.latency(a.name, op, ref.Node))
	for ctx.Err() == nil {
		s.mu.Lock()
		answer := (*simPeers)(a).answer(ref)
		frozen := a.frozen
		var found *chunkstore.Store
		for _, b := range s.agents {
			if b.address == ref.Address && b.kept != nil {
				found = b.kept.chunks
			}
		}
		s.mu.Unlock()
		switch {
		case frozen != nil:
			select {
			case <-frozen:
			case <-a.dead:
				return nil, errors.New("killed")
			case <-ctx.Done():
			}
			continue
		case a.kept.silent.Load():
			time.Sleep(time.Second)
		case answer.Kind == membership.Same && found != nil:
			return found, nil
		case answer.Kind == membership.NoAnswer:
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			}
		}
		return nil, fmt.Errorf("node %s: %w", ref.Node, transfer.ErrNoAnswer)
	}
	return nil, ctx.Err()
}
