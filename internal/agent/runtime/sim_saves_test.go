package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/node/activity"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/pipeline"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// keptDisk is a node's data of one job on its disk. It outlives agents, and is lost with its
// machine.
type keptDisk struct {
	chunks, dir *memfs.FS
	uid         schema.UID // of the job that it belongs to
}

func newKeptDisk() *keptDisk {
	d := &keptDisk{chunks: memfs.New(), dir: memfs.New()}
	d.dir.KeepNotes()
	return d
}

// saves is the checkpoint directory, in which the agent has a directory of its own.
func (d *keptDisk) saves() capture.Dir { return capture.Dir{FS: d.dir, Exclude: []string{ownDir}} }

// knows is what the disk of a host has of a job: the generation, and the numbers of the commits.
func (h *simHost) knows() string {
	c, ok := h.memory[h.node]
	if !ok {
		return ""
	}
	heads, _ := readonly.New(h.kept.chunks).Heads()
	var numbers []checkpoint.Number
	for _, x := range heads {
		numbers = append(numbers, x.Number)
	}
	return fmt.Sprintf("; its disk knows generation %d, commit %d and has %v", c.Generation, c.Known.Number,
		numbers)
}

// keptSaves is the Saves of an agent with the real replicator, pipeline, retention and removal, over a
// disk in memory.
type keptSaves struct {
	a    *simAgent
	ctx  context.Context // ends with the process
	stop context.CancelFunc
	wg   sync.WaitGroup

	behind     chan struct{}
	mu         sync.Mutex
	replicator *replicator.Replicator
	chunks     *chunkstore.Store
	disk       *keptDisk
	identity   schema.UID // of the job
	pipelines  map[schema.Generation]*keptPipeline
	trimmer    *history.Trimmer
	commits    int // in the generation that is captured; guarded by sim.mu
	resume     *manifest.Manifest
	head       checkpoint.Head
	nodes      []membership.Node
	met        map[membership.Incarnation]bool // that were registered while this agent was
	spread     context.CancelFunc
	doing      *activity.Activity // nil: it could read every checkpoint so far
	leads      bool               // it captures as rank 0
	silent     atomic.Bool        // no node answers its requests for chunks and manifests
}

// keptPipeline is the pipeline of one generation.
type keptPipeline struct {
	*pipeline.Pipeline
	asked  bool
	cancel context.CancelFunc
}

func newKeptSaves(a *simAgent) *keptSaves {
	x := &keptSaves{a: a, behind: make(chan struct{}, 1), pipelines: map[schema.Generation]*keptPipeline{},
		met: map[membership.Incarnation]bool{}}
	x.ctx, x.stop = context.WithCancel(context.Background())
	return x
}

// end waits until nothing of the process is left.
func (x *keptSaves) end() {
	x.stop()
	x.wg.Wait()
}

func (x *keptSaves) open(node string, job rendezvous.Job) error {
	disk := x.a.host.kept
	disk.uid = job.UID
	chunks, err := chunkstore.OpenFS(disk.chunks)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.disk, x.chunks, x.identity = disk, chunks, job.Identity()
	x.trimmer = &history.Trimmer{Store: x.a.client, Job: x.a.s.job.Name}
	x.replicator = &replicator.Replicator{Store: chunks, Self: node, Replicas: job.Rules.Replicas,
		Keep: job.Rules.Keep, Peers: &checkpointtest.Peers{To: x.a.storeOf},
		Record: &checkpoint.Record{Store: x.a.client, Job: x.a.s.job.Name, UID: job.UID, Self: node},
		Report: x.report}
	x.wg.Go(func() { _ = x.replicator.Run(x.ctx) })
	return nil
}

func (x *keptSaves) succeed(job rendezvous.Job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.disk.uid = job.UID
	x.replicator.AdoptJob(job.UID)
	x.head, x.nodes = checkpoint.Head{}, nil
}

func (x *keptSaves) report(e replicator.Event) {
	switch e := e.(type) {
	case replicator.Committed:
		x.mu.Lock()
		x.head = e.Head
		x.mu.Unlock()
		x.a.s.mu.Lock()
		x.a.s.tracef("%s: checkpoint %d is committed, %d copies", x.a.label(), e.Head.Number, e.Head.Copies)
		x.commits++
		x.a.s.mu.Unlock()
		x.wg.Go(func() { _ = x.trimmer.Wrote(x.ctx, 1) }) // as internal/node/saves does
	case replicator.Refused:
		x.a.s.mu.Lock()
		if e.Reason == capture.Broken {
			x.a.s.doubts = append(x.a.s.doubts, time.Now())
		}
		x.a.s.tracef("%s: a save is refused: %s %v", x.a.label(), e.Reason, e.Err)
		x.a.s.mu.Unlock()
	case replicator.Behind:
		select {
		case x.behind <- struct{}{}:
		default:
		}
	}
}

func (x *keptSaves) Behind() <-chan struct{} { return x.behind }
func (x *keptSaves) Gone() <-chan error      { return nil } // no store is removed under its agent here

func (x *keptSaves) NotReady(error) {}

func (x *keptSaves) Ready() {}

func (x *keptSaves) Nodes(nodes []membership.Node, head checkpoint.Head) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.replicator == nil {
		return
	}
	for _, n := range nodes {
		x.met[n.Incarnation] = true
	}
	same := slices.EqualFunc(x.nodes, nodes,
		func(a, b membership.Node) bool { return a.Same(b.Ref) && a.Rev == b.Rev })
	if same && x.head.Number >= head.Number {
		return
	}
	x.nodes = nodes
	if head.Number > x.head.Number {
		x.head = head
	}
	x.replicator.Nodes(nodes)
	x.protect()
}

// knew reports whether a node was registered while this agent was.
func (x *keptSaves) knew(i membership.Incarnation) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.met[i]
}

// protect copies the head until it has enough copies, on the node that captures. mu is held.
func (x *keptSaves) protect() {
	copies := 0
	for _, h := range x.head.Holders {
		if slices.ContainsFunc(x.nodes, func(n membership.Node) bool { return n.Same(h) }) {
			copies++
		}
	}
	if x.head.Parts != nil {
		copies = x.head.CopiesAt(nil, func(node string) bool {
			return slices.ContainsFunc(x.nodes, func(n membership.Node) bool { return n.Node == node })
		})
	}
	want := min(x.replicator.Replicas, len(x.nodes))
	if x.ctx.Err() != nil || x.head.Number == 0 || copies >= want || len(x.pipelines) == 0 || !x.leads ||
		!x.chunks.HasManifest(x.head.Manifest) {
		return
	}
	if x.spread != nil {
		x.spread()
	}
	var ctx context.Context
	ctx, x.spread = context.WithCancel(x.ctx)
	head := x.head
	x.wg.Go(func() { _ = x.replicator.Complete(ctx, head.Generation, head, want-1) })
}

// directory is the checkpoint directory, with the files that make one save.
func (x *keptSaves) directory() capture.Dir {
	d := x.disk.saves()
	if named := x.a.s.saveFiles; named != nil {
		d.Names = named().Names()
	}
	return d
}

func (x *keptSaves) Open(w rendezvous.World, rank int) {
	dir, with := x.directory(), x.with(w)
	if rank != 0 && with == nil {
		if err := capture.RecordFingerprints(x.chunks, dir); err != nil {
			x.a.s.mu.Lock()
			x.a.s.tracef("%s: %v", x.a.label(), err) // the disk is full: the next save reports it
			x.a.s.mu.Unlock()
		}
		return
	}
	ctx, cancel := context.WithCancel(x.ctx)
	line := &keptPipeline{cancel: cancel}
	x.a.s.mu.Lock()
	x.commits = 0
	x.a.s.mu.Unlock()
	x.mu.Lock()
	resume := x.resume
	x.mu.Unlock()
	p, err := pipeline.Start(ctx, x.replicator, pipeline.Source{Dir: dir, Stamp: x.stamp(w), Resume: resume,
		Writers: pipeline.Writers{With: with, Workers: capture.Workers{
			State: func() capture.WorkerState { return x.state(w.Generation) }}}})
	if err != nil {
		cancel()
		x.a.s.mu.Lock()
		x.a.s.tracef("%s captures nothing: %v", x.a.label(), err)
		x.a.s.mu.Unlock()
		return
	}
	line.Pipeline = p
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pipelines[w.Generation], x.leads = line, rank == 0
	x.protect()
	x.wg.Go(func() { <-p.Done() })
}

// with returns the nodes of w that each save a part; nil if rank 0 saves all.
func (x *keptSaves) with(w rendezvous.World) *pipeline.Sharing {
	if x.a.s.job.Rules.SaveFrom != checkpoint.SaveFromAll {
		return nil
	}
	apart := func(membership.Ref) bool { return true }
	return pipeline.NewSharing(w.Members, x.replicator.Self, checkpoint.SaveFromAll, apart)
}

// state is the state of the workers of generation g.
func (x *keptSaves) state(g schema.Generation) capture.WorkerState {
	x.a.s.mu.Lock()
	defer x.a.s.mu.Unlock()
	for _, group := range x.a.groups {
		switch {
		case group.Start.World.Generation != g || !group.ended:
		case x.a.s.exits && group.exited:
			return capture.Exited
		default:
			return capture.Killed
		}
	}
	return capture.Running
}

func (x *keptSaves) stamp(w rendezvous.World) checkpoint.Stamp {
	return checkpoint.Stamp{Job: x.a.s.job.Name, UID: x.identity, Generation: w.Generation,
		WorldSize: w.Size()}
}

func (x *keptSaves) Close(ctx context.Context, g schema.Generation) error {
	return x.closeUp(ctx, g, false)
}

func (x *keptSaves) Finish(ctx context.Context, g schema.Generation) error {
	return x.closeUp(ctx, g, true)
}

func (x *keptSaves) closeUp(ctx context.Context, g schema.Generation, last bool) error {
	x.mu.Lock()
	var closing []*keptPipeline
	for of, l := range x.pipelines {
		if of > g {
			continue
		}
		if !l.asked {
			l.asked = true
			if last {
				l.Pipeline.Finish()
			} else {
				l.Pipeline.Close()
			}
		}
		closing = append(closing, l)
		delete(x.pipelines, of)
	}
	x.mu.Unlock()
	for _, l := range closing {
		limit := make(<-chan time.Time)
		if !last {
			limit = time.After(500 * time.Millisecond)
		}
		select {
		case <-l.Done():
		case <-limit:
		case <-ctx.Done():
		}
		l.cancel()
		<-l.Done()
	}
	return nil
}

func (x *keptSaves) Prepare(ctx context.Context, w rendezvous.World) (event.Resume, error) {
	dir := x.directory()
	if err := x.chunks.Raise(w.Generation); err != nil {
		return event.Resume{}, err
	}
	if w.Resume == nil {
		x.mu.Lock()
		x.resume = nil
		x.mu.Unlock()
		return event.Resume{}, capture.Scratch(x.chunks, dir)
	}
	from, m, err := x.replicator.Prepare(ctx,
		replicator.Resume{Generation: w.Generation, Number: w.Resume.Number,
			Manifest: w.Resume.Manifest}, dir)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resume = m
	x.tellReadable(w.Resume.Number, err)
	return event.Resume{From: from, Step: w.Resume.Step, Samples: w.Resume.Samples}, err
}

// tellReadable tells the others whether this node can read the checkpoint from which it begins. mu
// is held.
func (x *keptSaves) tellReadable(n checkpoint.Number, err error) {
	switch {
	case replicator.CannotBeHad(err):
		if x.ctx.Err() != nil {
			return
		}
		if x.doing == nil {
			s := scope.New(x.ctx)
			x.wg.Go(func() { <-x.ctx.Done(); s.Wait() })
			x.doing = activity.New(s, x.a.client, x.a.s.job.Name.Doing(x.replicator.Self))
		}
		x.doing.Unreadable(int64(n), replicator.AskedAt(err))
	case err == nil && x.doing != nil:
		x.doing.Nothing()
	}
}

func (x *keptSaves) Stay(w rendezvous.World) error {
	x.mu.Lock()
	x.resume = nil
	x.mu.Unlock()
	if err := x.chunks.Raise(w.Generation); err != nil {
		return err
	}
	return capture.Scratch(x.chunks, x.directory())
}

func (x *keptSaves) CommitLeft(ctx context.Context, w rendezvous.World, self membership.Node) error {
	left := pipeline.Left{Stamp: x.stamp(w), Self: self}
	if w.Resume != nil {
		left.Resume = w.Resume.Number
	}
	if w.Members[0].Node == self.Node && x.with(w) == nil {
		dir := x.directory()
		left.Dir = &dir
	}
	h, err := pipeline.CommitLeft(ctx, x.replicator, left)
	if errors.Is(err, replicator.ErrStoreBehind) || errors.Is(err, checkpoint.ErrOtherJob) {
		return nil
	}
	if h.Number > 0 {
		x.a.s.mu.Lock()
		x.a.s.tracef("%s commits what generation %d left: checkpoint %d", x.a.label(), w.Generation, h.Number)
		x.a.s.mu.Unlock()
	}
	return err
}

func (x *keptSaves) HandOver(ctx context.Context) {
	head, _, err := x.replicator.Record.Read(ctx)
	if err != nil || head.Number == 0 || !x.chunks.Has(head.Manifest) {
		return
	}
	elsewhere, err := x.replicator.Record.InventoryHolders(ctx, head.Number)
	if err == nil &&
		slices.ContainsFunc(elsewhere, func(h membership.Ref) bool { return h.Node != x.replicator.Self }) {
		return
	}
	// no other node here: it stays on this disk
	_ = x.replicator.Spread(ctx, head.Generation, head.Manifest, 1)
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
		var found *simAgent
		for _, b := range s.agents {
			if b.address == ref.Address {
				found = b
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
		case answer.Kind == membership.Same && found.kept != nil && found.kept.chunks != nil:
			return found.kept.chunks, nil
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
