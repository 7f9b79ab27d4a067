package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/runtime"
	"github.com/elasticd/elastic/internal/check"
	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/node/activity"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/node/peers"
	"github.com/elasticd/elastic/internal/node/saves"
	"github.com/elasticd/elastic/internal/node/stay"
	"github.com/elasticd/elastic/internal/node/warmth"
	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/internal/worker/mark"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/python"
)

// workers starts the processes of this node. Once it is open it knows the node's directories.
type workers struct {
	o       Options
	disk    *disk.Disk
	store   store.Store
	effects *scope.Scope // ends with the agent
	notice  func(string)
	raw     func(string) // says it without "elastic: " in front

	peers    *peers.Peers
	saves    *saves.Saves
	mark     *saves.Mark
	kubeflow *progress.Kubeflow // nil: none asks for the progress

	node    string
	job     atomic.Pointer[rendezvous.Job]
	dir     string // of the node and job
	logs    *output.Logs
	doing   *activity.Activity
	warmth  *warmth.Count
	hooking hooking
	hangs   atomic.Pointer[hang.Watch] // of the newest generation; nil: hangs are not watched
	stay    *stay.Stay

	announced bool // owned by Start, which is called for one generation after the other

	preparing sync.Mutex // held while a guardian is made that is to stand by

	mu       sync.Mutex       // guards what follows
	prepared *worker.Prepared // for the next generation
	saidWarm bool             // it was said that processes wait
	closed   bool
	ports    ports
}

func (w *workers) Open(node string, job rendezvous.Job) (string, error) {
	w.node, w.dir = node, w.disk.JobDir(node)
	w.job.Store(&job)
	aside, err := w.disk.Adopt(node, job)
	if err != nil {
		return "", err
	}
	w.disk.Close() // later reads open it again
	if aside != "" {
		w.notice(fmt.Sprintf("another job %s was here before: what this node kept of it is in %s now",
			w.o.Job.Name, aside))
	}
	if err := os.MkdirAll(w.checkpoints(), 0o700); err != nil {
		return "", err
	}
	w.mark.Node = node
	if err := w.mark.Take(w.o.Job.Name); err != nil {
		return "", err
	}
	if err := w.mark.Write(); err != nil {
		return "", err
	}
	w.logs, err = output.Open(w.logOptions(node, job))
	if err != nil {
		return "", err
	}
	if err := python.Write(w.helper()); err != nil {
		return "", err
	}
	if err := w.showLogs(); err != nil {
		return "", err
	}
	w.answerHangs()
	if w.stay, err = stay.Open(w.dir, node, w.peers); err != nil {
		w.notice("workers cannot stay when the world changes: " + err.Error())
	}
	for pattern, h := range check.NewServer(w.peers.To).Handlers() {
		w.peers.Server.Handle(pattern, h)
	}
	w.doing = activity.New(w.effects, w.store, w.o.Job.Name.Doing(node))
	w.warmth = warmth.New(w.store, w.o.Job.Name.Warm(node), w.standBy)
	w.effects.Go(w.warmth.Run)
	joining := saves.Node{Name: node, Dir: w.dir, Directory: w.directory(), Activity: w.doing}
	if err := w.saves.Join(joining, job); err != nil {
		return "", err
	}
	ctx, done := w.effects.Context(context.Background())
	defer done()
	if err := w.preHook(ctx, 0, 0); err != nil {
		return "", err
	}
	return shownDir(w.logs.Dir()), nil
}

// run names one attempt of one job: its output is kept apart from that of any other.
func run(job rendezvous.Job) string { return fmt.Sprintf("%s %s %d", job.Name, job.UID, job.Attempt) }

// rankPrefix stands before each line on the terminal where several workers share it. It is what
// torch puts before its tracebacks.
func rankPrefix(_, rank int) string { return fmt.Sprintf("[rank%d]: ", rank) }

// AdoptJob goes on in a job that was made again, with what this node has of it.
func (w *workers) AdoptJob(job rendezvous.Job) error {
	if _, err := w.disk.Adopt(w.node, job); err != nil {
		return err
	}
	w.job.Store(&job)
	if err := w.logs.Adopt(run(job)); err != nil {
		w.notice(err.Error())
	}
	w.saves.AdoptJob(job)
	return nil
}

func (w *workers) close() {
	w.mark.Remove()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	if p := w.take(); p != nil {
		p.Close()
	}
	w.stay.Close()
	if w.logs == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.logs.Close(ctx); err != nil {
		w.notice("the logs could not be closed: " + err.Error())
	}
}

// helper is the directory of the Python helper, of this agent's version.
func (w *workers) helper() string { return filepath.Join(w.dir, disk.HelperDir) }

func (w *workers) checkpoints() string {
	if w.o.CheckpointDir != "" {
		return w.o.CheckpointDir
	}
	return filepath.Join(w.dir, disk.WorkDir)
}

// Sweep ends what an earlier agent of this node left. Each joining begins with it.
func (w *workers) Sweep(ctx context.Context) error {
	w.hooking.interrupt() // it has the mark of this node, and would be ended as a leftover
	if p := w.take(); p != nil {
		p.Close() // it has the mark of this node as well
	}
	err := mark.Sweep(ctx, mark.Of(w.dir))
	if err != nil {
		return err
	}
	if err := w.mark.Write(); err != nil { // it may be somewhere else than in its last life
		w.notice(err.Error())
	}
	w.prepare(w.job.Load().Slots)
	return nil
}

// prepare has a guardian of so many workers stand by for the next generation: when that is to
// start, all nodes wait. If it cannot be made, the start tries again and returns the error.
func (w *workers) prepare(slots int) {
	w.preparing.Lock()
	w.effects.Go(func(context.Context) {
		defer w.preparing.Unlock()
		p, err := worker.Prepare(w.spec(), slots)
		if err != nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.closed || w.prepared != nil {
			p.Close()
			return
		}
		w.prepared = p
	})
}

// take is the guardian that stands by, nil if there is none. One that is being made is waited for:
// a Sweep that met it half made would end it.
func (w *workers) take() *worker.Prepared {
	w.preparing.Lock()
	defer w.preparing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.prepared
	w.prepared = nil
	if w.warmth != nil {
		w.warmth.Changed()
	}
	return p
}

// spec is what all generations have in common.
func (w *workers) spec() worker.Spec {
	return worker.Spec{Mark: mark.Of(w.dir), Logs: w.logs, TTY: w.o.Launcher.TTY,
		Guardian: []string{"/proc/self/exe", Guardian}}
}

// begin starts the group of spec. It uses the guardian that stands by, if that still lives and is
// for as many workers: a new attempt of the job may have another number of them.
func (w *workers) begin(ctx context.Context, spec worker.Spec) (*worker.Group, error) {
	defer w.prepare(len(spec.Env))
	if p := w.take(); p != nil {
		g, err := p.Start(ctx, spec)
		if !errors.Is(err, worker.ErrNoGuardian) && !errors.Is(err, os.ErrInvalid) {
			return g, err
		}
	}
	return worker.Start(ctx, spec)
}

// refused is a start that failed, with the exit status that it stands for.
type refused struct {
	error
	code int
}

func (r refused) Unwrap() error { return r.error }
func (r refused) ExitCode() int { return r.code }

// errServersEnded: servers that were to stay for a generation have ended, and other nodes may rely
// on them.
var errServersEnded = errors.New("a server ended while the world changed")

func (w *workers) Start(ctx context.Context, s action.Start) (runtime.Group, error) {
	world := s.World
	if s.Unprepared && w.job.Load().Roles != nil {
		return nil, refused{errServersEnded, 125}
	}
	in, err := w.inputs(s)
	if err == nil && s.Waits && w.stay.Path() == "" {
		err = errors.New("no socket on which workers could wait")
	}
	if err != nil {
		return nil, refused{err, 125}
	}
	w.usePorts(s.Ports)
	connected := w.stay.Expect(world.Generation, world.Slots) // before the first of them may speak
	g, err := w.started(ctx, in)
	if err != nil {
		connected.Close()
	}
	switch {
	case errors.Is(err, worker.ErrNotFound):
		return nil, refused{err, 127}
	case errors.Is(err, worker.ErrNotExecutable):
		return nil, refused{err, 126}
	case err != nil:
		return nil, refused{err, 125}
	}
	out := &group{w: w, g: g, began: world.Generation, ports: s.Ports, runDir: in.RunDir, stay: connected,
		events: make(chan event.Event, world.Slots)}
	if s.Waits {
		out.await(world.Generation)
	} else if err := out.begin(s); err != nil {
		return nil, refused{err, 125}
	}
	w.saves.WorkersStarted(world.Generation, g.PIDs)
	out.heard.Go(out.watchStay)
	w.effects.Go(func(context.Context) { out.translate() })
	return out, nil
}

// directory is where the workers save, without what the agent itself keeps there.
func (w *workers) directory() capture.Dir {
	d := capture.Dir{Path: w.checkpoints()}
	for _, x := range []string{w.disk.Dir, filepath.Dir(w.disk.Dir), w.logs.Dir(), w.o.LogDir} {
		if full, err := filepath.Abs(x); err == nil && x != "" {
			d.Exclude = append(d.Exclude, full)
		}
	}
	return d
}
