// Package saves captures, commits and fetches the checkpoints of one node. It runs a replicator,
// and a pipeline for each generation.
package saves

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/pipeline"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// closeLimit is how long the captures of a generation that was cut short may take to commit. The next
// generation waits for it.
const closeLimit = 500 * time.Millisecond

// Config has the parts of the node that its saves use.
type Config struct {
	Job     schema.Job
	Store   store.Store
	Effects *scope.Scope // of the node; all goroutines of the saves end with it
	Peers   transfer.Peers
	// Serve lets other nodes read and write the chunk store. slow is told of a chunk that took long.
	Serve  func(s *chunkstore.Store, slow func(time.Duration))
	Mark   *Mark
	Notice func(string)
	// Blame writes what speaks against this machine into its record.
	Blame func(machines.Kind, string)
	// VerifyEvery is the time in which all checkpoints on this disk are read again; 0: never.
	VerifyEvery time.Duration
	// PreHook fails if this node cannot run workers of a generation in a world of that size.
	PreHook func(ctx context.Context, g schema.Generation, size int) error
}

// Activity reports to the other nodes that bytes move.
type Activity interface {
	Nothing()
	Moving(what string, done, total int64)
	// Unreadable reports that this node cannot get checkpoint number from any node. since is the
	// store revision at which the list of nodes was read; 0: now.
	Unreadable(number, since int64) (first bool)
	// Blocked reports why this node is not ready.
	Blocked(why string)
}

// Node describes this node, once it has its name.
type Node struct {
	Name      string
	Dir       string      // of the node and job
	Store     disk.Store  // the directory of the chunk store
	Directory capture.Dir // where the workers save
	Activity  Activity
}

// Saves are the checkpoints of this node.
type Saves struct {
	c       Config
	node    Node
	writing writing
	behind  chan struct{}    // signalled if the store shows an older head than the disk
	gone    chan error       // see Gone
	trimmer *history.Trimmer // removes old events

	mu         sync.Mutex // guards what follows; never held while waiting
	replicator *replicator.Replicator
	chunks     *chunkstore.Store
	job        rendezvous.Job
	nodes      []membership.Node // as Nodes set them
	head       checkpoint.Head   // the newest commit
	pipelines  map[schema.Generation]*capturing
	resume     *checkpoint.Manifest // the checkpoint that the newest Prepare restored
	spread     context.CancelFunc   // ends the copying that protect began
	leads      bool                 // this node is rank 0: its pipeline commits
	running    bool                 // workers of a generation run here
	alone      bool                 // the newest commit has no second copy, and the user was notified
	sharing    bool                 // the user was notified that nodes share the checkpoint directory
	loadsAll   replicator.LoadsAll  // the last report about --load=own
}

// capturing is the captures of one generation.
type capturing struct {
	*pipeline.Pipeline
	cancel context.CancelFunc
	asked  bool // it was told to close or to finish
}

// New returns the saves of a node.
func New(c Config) *Saves {
	return &Saves{c: c, behind: make(chan struct{}, 1), gone: make(chan error, 1)}
}

// unusable is the error of a node whose data of the job cannot be read or written.
func unusable(err error) error {
	return problem.New(problem.StateDir, "the checkpoints on this machine cannot be used: %v", err).Of(err).
		Cure("make all of it readable and writable for the user of this agent (chown -R), or --state-dir=DIR on " +
			"another disk: another node that has a checkpoint gives it a copy")
}

// Join opens the chunk store, once the node has its name and the job its id.
func (s *Saves) Join(node Node, job rendezvous.Job) error {
	s.node = node
	s.node.Directory.Names = job.Rules.SaveFiles.Names()
	chunks, err := open(node.Store)
	if err != nil {
		return unusable(fmt.Errorf("%s: %w", s.storeDir(), err))
	}
	here, err := look(node.Store.Stat, chunkstore.Dirs("."))
	if err != nil {
		return errors.Join(unusable(err), chunks.Close())
	}
	name := s.c.Job
	k := &replicator.Replicator{Store: chunks, Self: node.Name, Replicas: job.Rules.Replicas,
		Keep: job.Rules.Keep, Peers: s.c.Peers,
		Record: &checkpoint.Record{Store: s.c.Store, Job: name, UID: job.UID, Self: node.Name},
		Report: s.report}
	s.trimmer = &history.Trimmer{Store: s.c.Store, Job: name}
	s.mu.Lock()
	s.job = job
	s.replicator, s.chunks, s.pipelines = k, chunks, map[schema.Generation]*capturing{}
	s.mu.Unlock()
	s.c.Serve(chunks, s.slow)
	s.c.Effects.Go(func(ctx context.Context) {
		var beside sync.WaitGroup
		if s.c.VerifyEvery > 0 {
			beside.Go(func() { k.Scrub(ctx, s.c.VerifyEvery) })
		}
		beside.Go(func() { s.watchStore(ctx, here, k) })
		_ = k.Run(ctx) // Run fails only with ctx
		beside.Wait()
		_ = chunks.Close() // the next agent writes again what could not be written
	})
	return nil
}

// open opens the chunk store in a directory.
func open(dir disk.Store) (*chunkstore.Store, error) {
	t, err := dir.Open()
	if err != nil {
		return nil, err
	}
	chunks, err := chunkstore.OpenFS(t)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open checkpoint store: %w", err), t.Close())
	}
	return chunks, nil
}

// storeDir is the directory of the chunk store.
func (s *Saves) storeDir() string { return filepath.Join(s.node.Dir, disk.StoreDir) }

// AdoptJob continues with a job that was made again while this node was in it. Pipelines go on.
func (s *Saves) AdoptJob(job rendezvous.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicator.AdoptJob(job.UID)
	s.job = job
	s.head, s.nodes = checkpoint.Head{}, nil
}

// rules returns the settings of the job.
func (s *Saves) rules() rendezvous.Rules {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.job.Rules
}

// Behind is signalled when the store shows less than the commits on this disk.
func (s *Saves) Behind() <-chan struct{} { return s.behind }

// Nodes sets the nodes that are registered, and the head, as last read.
func (s *Saves) Nodes(nodes []membership.Node, head checkpoint.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replicator == nil || sameNodes(s.nodes, nodes) && s.head.Number >= head.Number {
		return
	}
	s.nodes = nodes
	if head.Number > s.head.Number {
		s.head = head
	}
	s.replicator.Nodes(nodes)
	s.protect()
}

// protect makes the copies that the head lacks, while other nodes are here. In a generation rank 0's
// node does so at once. While the job waits, each node that has the head does, one after the other, unless
// a generation begins. mu is held.
func (s *Saves) protect() {
	head := s.head
	copies, holders := s.holders()
	at := slices.Index(holders, s.replicator.Self)
	want := min(s.replicator.Replicas, len(s.nodes))
	leads := s.leads && len(s.pipelines) > 0
	if head.Number == 0 || copies >= want || !s.chunks.HasManifest(head.Manifest) ||
		!leads && (s.running || at < 0) {
		return
	}
	if s.spread != nil {
		s.spread()
	}
	var ctx context.Context
	ctx, s.spread = s.c.Effects.Context(context.Background())
	k, turn := s.replicator, time.Duration(0)
	if !leads {
		turn = time.Duration(at+1) * waitingTurn
	}
	// After an error there are as many copies as before; the next change of nodes tries again.
	s.c.Effects.Go(func(context.Context) {
		if turn == 0 || pause(ctx, turn) {
			_ = k.Complete(ctx, head.Generation, head, want-1)
		}
	})
}

// holders returns the number of copies of the head that are here, and the nodes of its holders, by name. A
// holder whose agent was started again may have lost its disk, so it counts for no copy. mu is held.
func (s *Saves) holders() (copies int, names []string) {
	here := map[string]bool{}
	for _, h := range s.head.Holders {
		for _, n := range s.nodes {
			if n.Node == h.Node {
				names = append(names, n.Node)
				here[n.Node] = n.Same(h)
			}
			if n.Same(h) {
				copies++
			}
		}
	}
	if s.head.Parts != nil {
		copies = s.head.CopiesAt(nil, func(node string) bool { return here[node] })
	}
	slices.Sort(names)
	return copies, names
}

// waitingTurn is after how long the first holder of the head makes copies while the job waits; the
// next one does after twice that time. Most generations begin earlier, and make the copies themselves.
const waitingTurn = 3 * time.Second

// sameNodes reports whether both lists have the same registrations.
func sameNodes(a, b []membership.Node) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Same(b[i].Ref) || a[i].Rev != b[i].Rev {
			return false
		}
	}
	return true
}

// Open starts to capture, before the workers start. It does so on rank 0's node, and on other nodes
// if they save a part.
func (s *Saves) Open(w rendezvous.World, rank int) {
	s.writing.begin(w.Generation)
	s.mu.Lock()
	s.running = true
	if s.spread != nil { // rank 0's node makes the copies from now on
		s.spread()
	}
	s.mu.Unlock()
	dir, sharing := s.node.Directory, s.sharers(w)
	if rank != 0 && sharing == nil {
		if err := capture.RecordFingerprints(s.chunks, dir); err != nil {
			s.c.Notice("the checkpoint directory cannot be read: " + err.Error())
		}
		return
	}
	ctx, cancel := s.c.Effects.Context(context.Background())
	s.mu.Lock()
	resume := s.resume
	s.mu.Unlock()
	l, err := pipeline.Start(ctx, s.replicator, pipeline.Source{Dir: dir, Stamp: s.stamp(w), Resume: resume,
		Writers: pipeline.Writers{Workers: s.writing.of(w.Generation), With: sharing}})
	if err != nil {
		cancel()
		s.c.Notice("checkpoints are not captured: " + err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipelines[w.Generation] = &capturing{Pipeline: l, cancel: cancel}
	s.c.Effects.Go(func(context.Context) { <-l.Done() })
	s.leads = rank == 0
	s.protect()
}

// Observe looks at the files of the workers of g, before these are asked to end.
func (s *Saves) Observe(g schema.Generation) {
	s.mu.Lock()
	l := s.pipelines[g]
	s.mu.Unlock()
	if l == nil {
		return
	}
	ctx, done := s.c.Effects.Context(context.Background())
	defer done()
	ctx, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	l.Observe(ctx)
}

// observeLimit is how much Observe may delay the request to end.
const observeLimit = 300 * time.Millisecond

// Close ends the captures up to g. It waits for each at most closeLimit.
func (s *Saves) Close(ctx context.Context, g schema.Generation) error {
	return s.end(ctx, g, ending{(*pipeline.Pipeline).Close, closeLimit})
}

// Finish ends the captures up to g. It first takes complete saves that the workers left, and waits
// until each is committed or refused. It has no limit of its own: the grace of the hold and the
// fence end it. Close cuts it short.
func (s *Saves) Finish(ctx context.Context, g schema.Generation) error {
	return s.end(ctx, g, ending{(*pipeline.Pipeline).Finish, 0})
}

// ending says how captures end.
type ending struct {
	ask   func(*pipeline.Pipeline)
	limit time.Duration // for each; 0: none
}

// end ends the captures up to g, and waits for them.
func (s *Saves) end(ctx context.Context, g schema.Generation, how ending) error {
	s.mu.Lock()
	var closing []*capturing
	for of, l := range s.pipelines {
		if of > g {
			continue
		}
		if !l.asked {
			l.asked = true
			how.ask(l.Pipeline)
		}
		closing = append(closing, l)
	}
	s.mu.Unlock()
	defer s.node.Activity.Nothing()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.DeleteFunc(s.pipelines, func(of schema.Generation, _ *capturing) bool { return of <= g })
		if s.running = false; s.replicator != nil {
			s.protect()
		}
	}()
	for _, l := range closing {
		var limit <-chan time.Time
		if how.limit > 0 {
			limit = time.After(how.limit)
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
