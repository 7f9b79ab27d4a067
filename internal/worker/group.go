package worker

import (
	"context"
	"crypto/rand"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// The reasons why a worker could not be started.
var (
	ErrNotFound      = errors.New("program not found")
	ErrNotExecutable = errors.New("program not executable")
)

// StartCode is the exit status of a worker that could not be started because of err, as in a shell.
func StartCode(err error) int {
	switch {
	case errors.Is(err, ErrNotFound):
		return 127
	case errors.Is(err, ErrNotExecutable):
		return 126
	}
	return 125
}

// Spec is one group: all workers of one generation on this node. Local rank i
// is worker i.
type Spec struct {
	Mark       proc.Mark // the mark of the agent's state directory
	Job        string
	Node       string
	Generation uint64
	Ranks      []int  // by local rank
	First      int    // local rank of worker 0; above 0 if a node has several groups
	Name       string // the name of the only worker, if it has no rank
	WorldSize  int
	Waits      bool // the workers are in no generation until Continue

	Argv   []string   // Argv[0] is the file to execute, relative to Dir; PATH is not searched
	Args   [][]string // arguments by local rank; nil: those of Argv
	Env    [][]string // the whole environment, by local rank
	CPUs   [][]int    // processors of each worker, by local rank; nil: any
	Dir    string
	RunDir string // of the generation; has a directory for each local rank, and the drain file

	// Lead is how much earlier the worker of rank 0 starts than all others, on all nodes.
	Lead time.Duration
	// TTY is the terminal of the only worker; nil: none.
	TTY *os.File

	Logs     *output.Logs
	Guardian []string // a command that calls Guard
	NoCgroup bool
}

// DrainFile is the file that workers may watch for a Drain.
func (s Spec) DrainFile() string { return filepath.Join(s.RunDir, "drain") }

// Drain asks workers to save and then end.
type Drain struct {
	Reason       string  `json:"reason"`
	GraceSeconds float64 `json:"grace_seconds"`
}

// Group has the processes of one generation: the workers and all their descendants. Its methods may
// be called at any time, from any goroutine, more than once.
type Group struct {
	spec     Spec
	id, mark string // of this group
	cgroup   proc.Cgroup
	guardian *os.Process
	conn     *os.File // the socket to the guardian
	orders   *gob.Encoder
	pumps    [][]*output.Pump
	ends     []workerOrder // by local rank, for the order
	terminal int           // the worker's terminal, as a descriptor of the guardian; 0: none
	warm     bool          // warm workers were started
	streams  []streamOrder
	began    time.Time
	oomKills int // number of the last count; -1: not counted
	// by local rank, in a later generation; nil: those of spec
	ranks atomic.Pointer[[]int]
	moved atomic.Int64 // what is added to the local ranks that the workers started with

	sending sync.Mutex   // orders
	ending  atomic.Bool  // workers were asked to end, or ended
	heard   atomic.Int64 // time of the guardian's last message, since began
	up      chan error   // the result of the start
	asked   chan error   // answers to Ask
	exits   chan Exit
	done    chan struct{}

	// Owned by follow:
	workers []started
	pending map[int]bool // workers whose exit is not reported
	tells   sync.WaitGroup
}

// ErrNoGuardian means that the guardian ended before the workers started. No process is left.
var ErrNoGuardian = errors.New("the guardian ended before the workers started")

// Start starts a group, or nothing. It fails with ErrNotFound or ErrNotExecutable if exec does.
func Start(ctx context.Context, s Spec) (*Group, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	g, err := Prepare(s, len(s.Env))
	if err != nil {
		return nil, err
	}
	return g.Start(ctx, s)
}

func (s Spec) check() error {
	if len(s.Argv) == 0 || len(s.Env) == 0 || len(s.Ranks) != len(s.Env) || len(s.Guardian) == 0 ||
		s.Args != nil && len(s.Args) != len(s.Env) || s.CPUs != nil && len(s.CPUs) != len(s.Env) ||
		s.TTY != nil && len(s.Env) != 1 {
		return fmt.Errorf("start workers: %w: program, ranks or guardian missing", os.ErrInvalid)
	}
	return nil
}

// Prepared is a guardian that has started, which is the longest part of a start, and waits for its
// order. Start or Close ends the waiting. It ends with the agent.
type Prepared struct{ g *Group }

// Prepare starts a guardian for so many workers. It uses only Mark, Logs and Guardian of s.
func Prepare(s Spec, workers int) (*Prepared, error) {
	var id [6]byte
	rand.Read(id[:])
	g := &Group{
		spec:    s,
		id:      hex.EncodeToString(id[:]),
		mark:    string(s.Mark) + "/" + hex.EncodeToString(id[:]),
		began:   time.Now(),
		up:      make(chan error, 1),
		asked:   make(chan error, 1),
		exits:   make(chan Exit, workers),
		done:    make(chan struct{}),
		pending: make(map[int]bool),
	}
	if err := g.launch(workers); err != nil {
		return nil, err
	}
	return &Prepared{g}, nil
}

// Close ends an unused guardian, and waits until no process is left.
func (p *Prepared) Close() {
	g := p.g
	g.finish()
	if g.warm {
		g.takeOver()
	} else {
		g.guardian.Kill() // it has no children yet
	}
	g.guardian.Wait()
	g.cgroup.Remove()
}

// Start starts the group s in the prepared guardian. s must have the number of workers of Prepare.
func (p *Prepared) Start(ctx context.Context, s Spec) (*Group, error) {
	g := p.g
	err := g.begin(s)
	if err != nil {
		p.Close()
		return nil, err
	}
	stopWaiting := context.AfterFunc(ctx, func() { g.guardian.Kill() })
	g.send(order{Start: g.order(g.spec)}) // follow notices an error
	go g.follow()
	err = <-g.up
	if !stopWaiting() { // ctx has ended, and so the guardian was killed
		err = context.Cause(ctx)
	}
	if err != nil {
		<-g.done
		return nil, fmt.Errorf("start workers of generation %d: %w", s.Generation, err)
	}
	return g, nil
}

// begin prepares the run directory, the cgroup and the logs for the group s.
func (g *Group) begin(s Spec) error {
	if err := s.check(); err != nil {
		return err
	}
	if len(s.Env) != len(g.ends) {
		return fmt.Errorf("start workers: %w: prepared for %d of them, and these are %d",
			os.ErrInvalid, len(g.ends), len(s.Env))
	}
	var err error
	if s.RunDir, err = filepath.Abs(s.RunDir); err != nil { // the guardian has another working directory
		return fmt.Errorf("find run directory: %w", err)
	}
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	for i := range s.Env {
		if err := os.MkdirAll(filepath.Join(s.RunDir, strconv.Itoa(s.First+i)), 0o700); err != nil {
			return fmt.Errorf("make run directory: %w", err)
		}
	}
	for _, file := range []string{s.DrainFile(), s.DrainFile() + overSuffix} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old drain file: %w", err)
		}
	}
	g.spec, g.began = s, time.Now()
	if !s.NoCgroup && g.cgroup == "" {
		g.cgroup = proc.NewCgroup(s.Mark.Cgroup() + g.id)
	}
	g.oomKills = g.killedForMemory()
	g.announce(output.Header{Generation: s.Generation, WorldSize: s.WorldSize, Waits: s.Waits})
	return nil
}

// announce writes the header of a generation into the logs. h has the fields that all workers
// share.
func (g *Group) announce(h output.Header) {
	g.shareConsole()
	h.Job, h.Node, h.Name = g.spec.Job, g.spec.Node, g.spec.Name
	for i := range g.spec.Env {
		h.Rank = g.rank(i)
		g.spec.Logs.Begin(g.logOf(i), h)
	}
}

// Move changes the local rank of worker 0. Its log becomes that of the new local rank.
func (g *Group) Move(first int) { g.moved.Store(int64(first - g.spec.First)) }

// logOf returns the local rank whose log worker i writes.
func (g *Group) logOf(i int) int { return g.spec.First + int(g.moved.Load()) + i }

// Continue moves the running workers into another generation, with other ranks, by local rank.
func (g *Group) Continue(generation uint64, ranks []int, worldSize int) {
	g.ranks.Store(&ranks)
	g.announce(output.Header{Generation: generation, WorldSize: worldSize})
}

// rank returns the current rank of a worker.
func (g *Group) rank(local int) int {
	if later := g.ranks.Load(); later != nil {
		return (*later)[local]
	}
	return g.spec.Ranks[local]
}

func (g *Group) send(o order) error {
	g.sending.Lock()
	defer g.sending.Unlock()
	return g.orders.Encode(o)
}

// Exits has one Exit for each worker, once it has ended, and is then closed. A slow reader does not
// block the group.
func (g *Group) Exits() <-chan Exit { return g.exits }

// Done is closed when no process of the group is left and its output is in the logs.
func (g *Group) Done() <-chan struct{} { return g.done }

// PIDs returns the processes of the workers, by local rank.
func (g *Group) PIDs() []int {
	pids := make([]int, len(g.workers))
	for i, w := range g.workers {
		pids[i] = w.PID
	}
	return pids
}

// Ask starts a planned end. It writes the drain file, then sends SIGTERM: to the process of a
// worker that catches it, to the process group of one with the default action, and to none that
// ignores it. Call Stop with the grace afterwards. Stop sends no second SIGTERM, and returns as
// soon as these workers have ended.
func (g *Group) Ask(ctx context.Context, d Drain) error {
	g.ending.Store(true)
	g.guardian.Signal(syscall.SIGCONT) // it may be stopped
	if err := g.send(order{Ask: &d}); err != nil && !g.isDone() {
		return fmt.Errorf("ask workers to save: %w", err)
	}
	select {
	case err := <-g.asked:
		if err != nil {
			return fmt.Errorf("ask workers to save: %w", err)
		}
		return nil
	case <-g.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ask workers to save: %w", context.Cause(ctx))
	}
}

// Stop ends the group. It sends SIGTERM to all processes unless Ask was called. When the workers
// have ended or the grace is over, it sends SIGKILL to the rest until none is left. It returns nil
// when the group is empty, and an error when ctx ends; the killing then continues. The shortest
// grace counts.
func (g *Group) Stop(ctx context.Context, grace time.Duration) error {
	g.ending.Store(true)
	g.guardian.Signal(syscall.SIGCONT)
	g.send(order{Stop: &stopOrder{Grace: grace}})
	hung := time.NewTimer(grace + proc.HangLimit)
	defer hung.Stop()
	for {
		select {
		case <-g.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("stop workers of generation %d: %w", g.spec.Generation, context.Cause(ctx))
		case <-hung.C:
			silent := time.Since(g.began) - time.Duration(g.heard.Load())
			if silent < proc.HangLimit { // the guardian works
				hung.Reset(proc.HangLimit - silent)
				continue
			}
			g.guardian.Kill() // workers die with the guardian, and follow kills the rest
		}
	}
}

func (g *Group) isDone() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}
