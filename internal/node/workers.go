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

	"github.com/elasticd/elastic/internal/agent"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/check"
	"github.com/elasticd/elastic/internal/hang"

	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/node/peers"
	"github.com/elasticd/elastic/internal/node/saves"

	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/python"
)

// workers starts the processes of this node. Open sets the directories of the node.
type workers struct {
	o       Options
	disk    *disk.Disk
	store   store.Store
	effects *scope.Scope // ends with the agent
	notice  func(string)
	raw     func(string) // writes a line without "elastic: " in front

	peers    *peers.Peers
	saves    *saves.Saves
	mark     *saves.Mark
	kubeflow *progress.Kubeflow // nil: Kubeflow does not ask for the progress

	node       string
	job        atomic.Pointer[rendezvous.Job]
	dir        string // of the node and job
	logs       *output.Logs
	doing      *saves.Doing
	preHookRun preHookRun
	hangs      atomic.Pointer[hang.Watch] // of the newest generation; nil: it has parameter servers
	stepped    atomic.Bool                // rank 0's worker was on this node once, and reported a step
	stay       *Stay

	announced bool // owned by Start, which is called for one generation after the other

	preparing sync.Mutex // held while the guardian for the next generation is being started

	mu       sync.Mutex       // guards what follows
	prepared *worker.Prepared // for the next generation
	saidWarm bool             // the notice about warm workers was shown
	closed   bool
	ports    ports
}

// Open implements agent.Workers.
func (w *workers) Open(node string, job rendezvous.Job, committed []checkpoint.Head) (string, error) {
	w.node, w.dir = node, w.disk.JobDir(node)
	w.job.Store(&job)
	aside, err := w.disk.Adopt(node, job, committed)
	if err != nil {
		return "", err
	}
	if aside != "" {
		w.notice(fmt.Sprintf("this node had data of another job %s; it was moved to %s",
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
	if w.stay, err = openStay(w.dir, node, w.peers); err != nil {
		w.notice("workers cannot stay when the world changes: " + err.Error())
	}
	for pattern, h := range check.NewServer(w.peers.To).Handlers() {
		w.peers.Server.Handle(pattern, h)
	}
	w.doing = saves.NewDoing(w.effects, w.store, w.o.Job.Name.Doing(node))
	joining := saves.Node{Name: node, Dir: w.dir, Store: w.disk.Store(node), Directory: w.directory(),
		Activity: w.doing}
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

// run names one attempt of one job. The logs of different runs are kept apart.
func run(job rendezvous.Job) string {
	return fmt.Sprintf("%s %s %d", job.Name, job.Identity(), job.Attempt)
}

// rankPrefix is put before each line on the terminal if several workers share it. torch uses the
// same prefix for its tracebacks.
func rankPrefix(_, rank int) string { return fmt.Sprintf("[rank%d]: ", rank) }

// AdoptJob continues with a job that was made again. It keeps what this node has of the job, and its
// workers go on.
func (w *workers) AdoptJob(job rendezvous.Job) error {
	if err := w.disk.Continue(w.node, job); err != nil {
		return err
	}
	w.job.Store(&job)
	if err := w.logs.Adopt(run(job)); err != nil { // the same run, unless another job took its place
		w.notice(err.Error())
	}
	w.saves.AdoptJob(job)
	return nil
}

// close ends what Open began, and what stands by for the next generation.
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

// helper is the directory of the Python helper. It has the version of this agent.
func (w *workers) helper() string { return filepath.Join(w.dir, disk.HelperDir) }

// checkpoints is the checkpoint directory.
func (w *workers) checkpoints() string {
	if w.o.CheckpointDir != "" {
		return w.o.CheckpointDir
	}
	return filepath.Join(w.dir, disk.WorkDir)
}

// Sweep ends the processes that an earlier agent of this node left. It runs at each joining.
func (w *workers) Sweep(ctx context.Context) error {
	w.preHookRun.interrupt() // the sweep would end the pre-hook, which has the mark of this node
	if p := w.take(); p != nil {
		p.Close() // the sweep would end this guardian too
	}
	err := proc.Sweep(ctx, proc.MarkOf(w.dir))
	if err != nil {
		return err
	}
	if err := w.mark.Write(); err != nil { // the address may differ from that of the last life
		w.notice(err.Error())
	}
	w.prepare(w.job.Load().Slots)
	return nil
}

// prepare starts the guardian of the next generation in the background, because all nodes wait
// while a generation starts. If that fails, the start of the generation tries again and returns the
// error.
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

// take removes and returns the guardian that stands by, or nil. It waits for one that is being
// started, so that Sweep does not end that guardian.
func (w *workers) take() *worker.Prepared {
	w.preparing.Lock()
	defer w.preparing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.prepared
	w.prepared = nil
	return p
}

// spec has the settings that all generations share.
func (w *workers) spec() worker.Spec {
	return worker.Spec{Mark: proc.MarkOf(w.dir), Logs: w.logs, TTY: w.o.Launcher.TTY,
		Guardian: []string{"/proc/self/exe", Guardian}}
}

// refused is the error of a start that failed, with the exit status of the agent.
type refused struct {
	error
	code int
}

func (r refused) Unwrap() error { return r.error }
func (r refused) ExitCode() int { return r.code }

// errServersEnded means that servers which should have stayed for a generation have ended. Other
// nodes may still rely on their tables.
var errServersEnded = errors.New("a server ended while the world changed")

// Start implements agent.Workers.
func (w *workers) Start(ctx context.Context, s message.Start) (agent.Group, error) {
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
	spec, err := w.prepareSpec(in)
	if err != nil {
		return nil, err
	}
	connected := w.stay.Expect(world.Generation, world.Slots) // before a worker can connect
	g, err := w.startProcesses(ctx, in, spec)
	if err != nil {
		connected.Close()
		return nil, refused{err, worker.StartCode(err)}
	}
	out := &group{w: w, g: g, began: world.Generation, ports: s.Ports, runDir: in.RunDir, stay: connected,
		events: make(chan message.Event, world.Slots)}
	if s.Waits {
		out.await(world.Generation)
	} else if err := out.begin(s); err != nil {
		return nil, refused{err, 125}
	}
	out.heard.Go(out.watchStay)
	w.effects.Go(func(context.Context) { out.translate() })
	return out, nil
}

// directory is the checkpoint directory, without the paths that the agent itself writes there.
func (w *workers) directory() capture.Dir {
	d := capture.Dir{Path: w.checkpoints(), Queue: w.o.Queue, Boot: bootID()}
	for _, x := range []string{w.disk.Dir, filepath.Dir(w.disk.Dir), w.logs.Dir(), w.o.LogDir} {
		if full, err := filepath.Abs(x); err == nil && x != "" {
			d.Exclude = append(d.Exclude, full)
		}
	}
	return d
}
