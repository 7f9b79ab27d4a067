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

	"github.com/elasticd/elastic/internal/worker/mark"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// Why a worker could not be started.
var (
	ErrNotFound      = errors.New("program not found")
	ErrNotExecutable = errors.New("program not executable")
)

// Spec is one group: all workers of one generation on this node. Local rank i
// is worker i.
type Spec struct {
	Mark       mark.Mark // of the agent's state directory
	Job        string
	Node       string
	Generation uint64
	Ranks      []int  // by local rank
	First      int    // local rank of worker 0; another one where a node has several groups
	Name       string // of the only worker, where it has no rank; "": it has
	WorldSize  int
	Waits      bool // the workers are in no generation before Continue

	Argv   []string   // Argv[0] is the file to execute, seen from Dir: it is not looked up
	Args   [][]string // arguments by local rank where they differ; nil: those of Argv
	Env    [][]string // the whole environment, by local rank
	CPUs   [][]int    // that a worker may run on, by local rank; nil: any
	Dir    string
	RunDir string // of the generation: gets a directory by local rank, and the drain file

	// Lead is how much earlier the worker of rank 0 starts than all others, on this node and
	// elsewhere.
	Lead time.Duration
	// TTY is the terminal that the only worker has as its input and output; nil: none.
	TTY *os.File

	Logs     *output.Logs
	Guardian []string // a command that calls Guard
	NoCgroup bool
}

// DrainFile is the path that workers may watch for a Drain.
func (s Spec) DrainFile() string { return filepath.Join(s.RunDir, "drain") }

// Drain asks workers to save and to end.
type Drain struct {
	Reason       string  `json:"reason"`
	GraceSeconds float64 `json:"grace_seconds"`
}

// Group is the processes of one generation: workers and all that they
// started. Its methods may be called at any time, from any goroutine, more than once.
type Group struct {
	spec     Spec
	id, mark string // of this group
	cgroup   proc.Cgroup
	guardian *os.Process
	conn     *os.File // to the guardian
	orders   *gob.Encoder
	pumps    [][]*output.Pump
	ends     []workerOrder // by local rank, for the order
	terminal int           // of the worker, among the guardian's descriptors; 0: none
	warm     bool          // processes were started that wait
	streams  []streamOrder
	began    time.Time
	oomKills int // seen so far; -1 where they are not counted
	// by local rank, where they went on in another generation; nil: those of spec
	ranks   atomic.Pointer[[]int]
	moved   atomic.Int64  // how much larger their local ranks are than when they started
	aborted []atomic.Bool // by local rank: it was ended for its stack
	held    []atomic.Bool // by local rank: it is stopped, and will be ended for its stack

	sending sync.Mutex   // orders
	ending  atomic.Bool  // workers were asked or made to end
	heard   atomic.Int64 // when the guardian last said something, since began
	up      chan error   // the outcome of the start
	asked   chan error   // answers to Ask
	exits   chan Exit
	done    chan struct{}

	// Owned by follow.
	workers []started
	pending map[int]bool // not yet reported in exits
	tells   sync.WaitGroup
}

// ErrNoGuardian: the guardian ended before the workers started. Nothing of them is left.
var ErrNoGuardian = errors.New("the guardian ended before the workers started")

// Start starts a group, or nothing. It fails with ErrNotFound or
// ErrNotExecutable where exec says so.
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

// Prepared is a guardian that waits for what to start: its own start is the longest part of
// a group's, and is over here. Start or Close ends it; with the agent it ends by itself.
type Prepared struct{ g *Group }

// Prepare starts a guardian for so many workers. Of s only Mark, Logs and Guardian count.
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

// Close ends it unused, and waits until nothing of it is left.
func (p *Prepared) Close() {
	g := p.g
	g.finish()
	if g.warm {
		g.takeOver()
	} else {
		g.guardian.Kill() // it waits for its order; it has no children
	}
	g.guardian.Wait()
	g.cgroup.Remove()
}

// Start starts the group in the guardian that was prepared. s has as many workers as it was
// prepared for.
func (p *Prepared) Start(ctx context.Context, s Spec) (*Group, error) {
	g := p.g
	err := g.begin(s)
	if err != nil {
		p.Close()
		return nil, err
	}
	stopWaiting := context.AfterFunc(ctx, func() { g.guardian.Kill() })
	g.send(order{Start: g.order(g.spec)}) // a failure is seen by follow
	go g.follow()
	err = <-g.up
	if !stopWaiting() { // ctx has ended, and the guardian with it
		err = context.Cause(ctx)
	}
	if err != nil {
		<-g.done
		return nil, fmt.Errorf("start workers of generation %d: %w", s.Generation, err)
	}
	return g, nil
}

// begin makes what the workers find.
func (g *Group) begin(s Spec) error {
	if err := s.check(); err != nil {
		return err
	}
	if len(s.Env) != len(g.ends) {
		return fmt.Errorf("start workers: %w: prepared for %d of them, and these are %d",
			os.ErrInvalid, len(g.ends), len(s.Env))
	}
	var err error
	if s.RunDir, err = filepath.Abs(s.RunDir); err != nil { // the guardian is elsewhere
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
	g.aborted, g.held = make([]atomic.Bool, len(s.Env)), make([]atomic.Bool, len(s.Env))
	g.announce(output.Header{Generation: s.Generation, WorldSize: s.WorldSize, Waits: s.Waits})
	return nil
}

// announce begins a generation in the logs, and on the console. h says what all workers have in
// common.
func (g *Group) announce(h output.Header) {
	g.shareConsole()
	h.Job, h.Node, h.Name = g.spec.Job, g.spec.Node, g.spec.Name
	for i := range g.spec.Env {
		h.Rank = g.rank(i)
		g.spec.Logs.Begin(g.logOf(i), h)
	}
}

// Move says that worker 0 has another local rank from now on: its log is that of the new one.
func (g *Group) Move(first int) { g.moved.Store(int64(first - g.spec.First)) }

// logOf is the local rank of whose log worker i has.
func (g *Group) logOf(i int) int { return g.spec.First + int(g.moved.Load()) + i }

// Continue says that the workers, in their processes, go on in another generation with other ranks,
// by local rank.
func (g *Group) Continue(generation uint64, ranks []int, worldSize int) {
	g.ranks.Store(&ranks)
	g.announce(output.Header{Generation: generation, WorldSize: worldSize})
}

// rank is that of a worker now.
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

// Exits carries one Exit per worker, when it is known to be gone, and is then
// closed. It never blocks the group.
func (g *Group) Exits() <-chan Exit { return g.exits }

// Done is closed when the group is empty, workers and all that they started,
// and its output is in the logs.
func (g *Group) Done() <-chan struct{} { return g.done }

// PIDs are the processes of the workers, by local rank.
func (g *Group) PIDs() []int {
	pids := make([]int, len(g.workers))
	for i, w := range g.workers {
		pids[i] = w.PID
	}
	return pids
}

// Ask is the beginning of a planned end: it writes the drain file, then sends
// SIGTERM to the process of each worker that catches it, to the process group of one that does not
// handle it, and to none that ignores it. Follow it with Stop and the grace: Stop sends no second
// SIGTERM to these workers, and returns as soon as they have ended.
func (g *Group) Ask(ctx context.Context, d Drain) error {
	g.ending.Store(true)
	g.guardian.Signal(syscall.SIGCONT) // it may have been frozen
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

// Stop ends the group: SIGTERM to all of it unless it was asked, then, when
// the workers have ended or the grace is over, SIGKILL to the processes that are left, until none
// is. It returns nil only when the group is empty and otherwise not before ctx ends; the killing
// goes on even then. The shortest grace holds.
func (g *Group) Stop(ctx context.Context, grace time.Duration) error {
	g.ending.Store(true)
	g.guardian.Signal(syscall.SIGCONT)
	g.send(order{Stop: &stopOrder{Grace: grace}})
	hung := time.NewTimer(grace + mark.HangLimit)
	defer hung.Stop()
	for {
		select {
		case <-g.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("stop workers of generation %d: %w", g.spec.Generation, context.Cause(ctx))
		case <-hung.C:
			silent := time.Since(g.began) - time.Duration(g.heard.Load())
			if silent < mark.HangLimit { // it does what can be done
				hung.Reset(mark.HangLimit - silent)
				continue
			}
			g.guardian.Kill() // workers die with it, and follow kills the rest
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
