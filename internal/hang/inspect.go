package hang

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/internal/regular"
)

// Evidence shows what a worker without progress is doing. Each part has a size limit.
type Evidence struct {
	LocalRank int    `json:"local_rank"`
	Rank      int    `json:"rank"`
	PID       int    `json:"pid"`
	State     string `json:"state"` // of its main thread: R, S, D, T…
	WChan     string `json:"wchan"` // kernel function in which it sleeps; "" or 0: unknown
	Syscall   string `json:"syscall"`
	Kernel    string `json:"kernel"`   // its kernel stack, if it may be read
	Threads   string `json:"threads"`  // one line each: number, name, state, kernel function
	Stack     string `json:"stack"`    // of Python, by python/watch
	Flight    []byte `json:"flight"`   // a dump of torch's flight recorder, a pickle; it is not read here
	Progress  string `json:"progress"` // the last line of its progress file
	// Busy is the share of a core that it used while it was inspected.
	Busy float64 `json:"busy"`
	// Working: it or a process below it used a processor or moved bytes before it was inspected.
	Working bool `json:"working"`
	// Collective is the last one of all ranks in torch's flight recorder; nil: none.
	Collective *diagnosis.Collective `json:"collective,omitempty"`
	// NCCL is what NCCL's service in this worker says of all ranks, by rank; nil: nothing. Only that of
	// rank 0 is asked.
	NCCL []diagnosis.NCCL `json:"nccl,omitempty"`
}

// Title is one line about the process of a rank.
func (e *Evidence) Title(node string) string {
	title := fmt.Sprintf("rank %d on %s: process %d, state %s, %.0f %% of a core", e.Rank, node, e.PID,
		e.State, 100*e.Busy)
	if e.Collective != nil {
		title += fmt.Sprintf(", in collective %d (%s)", e.Collective.Seq, e.Collective.Name)
	}
	return title
}

// Stopped reports whether the process is stopped, by a signal or a debugger.
func (e *Evidence) Stopped() bool { return e.State == "T" || e.State == "t" }

// Fit shortens evidence to most bytes.
func (e *Evidence) Fit(most int) {
	if len(e.Flight) > most/2 {
		e.Flight = nil
	}
	e.Threads = e.Threads[:min(len(e.Threads), most/8)]
	e.Kernel = e.Kernel[:min(len(e.Kernel), most/8)]
	e.Stack = e.Stack[max(0, len(e.Stack)-most/4):] // faulthandler writes the main thread last
}

// The size limits of the parts, and how long a worker may take to answer.
const (
	stackBytes      = 64 << 10
	kernelBytes     = 8 << 10
	flightBytes     = 2 << 20
	collectiveBytes = 4 << 10
	mostThreads     = 128
	answerLimit     = 2500 * time.Millisecond
	busyWindow      = 300 * time.Millisecond
	answerPause     = 50 * time.Millisecond // between two looks for an answer
)

// watchName is the name of files of python/watch in a worker's run directory: .ask is a pipe; .stacks,
// .flight and .collective are the answers.
const watchName = "evidence"

// variables are the variables that make a worker answer requests. Some are there twice, with the
// names of older and newer versions of torch. One without a value is not set, because newer versions
// warn of it, but the user's value of it counts.
func variables(dir string) [][]string {
	return [][]string{
		{"PYTHONFAULTHANDLER=1"},
		{"ELASTIC_EVIDENCE=" + filepath.Join(dir, watchName)},
		{"TORCH_FR_BUFFER_SIZE=1000", "TORCH_NCCL_TRACE_BUFFER_SIZE"},
		rasVariable(),
	}
}

// Inspect gathers evidence of a process without changing it. dir is its run directory.
func Inspect(ctx context.Context, pid int, dir string) Evidence {
	e := readProc(pid)
	e.Progress = Progress(dir)
	if e.Stopped() {
		return e // a stopped process does not answer
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { e.Busy = busy(ctx, pid) })
	all.Go(func() {
		base := filepath.Join(dir, watchName)
		if e.Stack = string(ask(ctx, base+".ask", base+".stacks", stackBytes)); e.Stack == "" {
			return
		}
		e.Flight = readFile(base+".flight", flightBytes) // it is written before the stacks
		var last *diagnosis.Collective
		if json.Unmarshal(readFile(base+".collective", collectiveBytes), &last) == nil {
			e.Collective = last
		}
	})
	all.Wait()
	return e
}

// ask writes to a pipe, and waits for the file answer. It returns nil if there is no answer, or if
// it is larger than most.
func ask(ctx context.Context, pipe, answer string, most int64) []byte {
	_ = os.Remove(answer) // so that an old answer is not taken for the new one
	f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	_, err = f.Write([]byte("1"))
	if cerr := f.Close(); err != nil || cerr != nil {
		return nil
	}
	for {
		if b := readFile(answer, most); len(b) > 0 {
			return b
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(answerPause):
		}
	}
}

// readFile reads a regular file of at most most bytes. It returns nil for any other file.
func readFile(path string, most int64) []byte {
	b, err := regular.Read(path, most)
	if err != nil {
		return nil
	}
	return b
}

// StuckSignal makes python/watch write the stacks of a process whose interpreter stands still. Only
// a process that catches it may get it, because it ends any other process.
const StuckSignal = syscall.Signal(62)

// Stuck sends that signal, and returns the stacks that the process then writes.
func Stuck(ctx context.Context, dir string, send func(syscall.Signal) bool) string {
	path := filepath.Join(dir, watchName+".stuck")
	before := sizeOf(path)
	if !send(StuckSignal) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for last := before; ; {
		now := sizeOf(path)
		if now > before && now == last {
			stacks := readFile(path, now)
			return string(stacks[min(before, int64(len(stacks))):])
		}
		last = now
		select {
		case <-ctx.Done():
			return ""
		case <-time.After(answerPause):
		}
	}
}

func sizeOf(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// busy returns the share of a core that a process uses for a moment.
func busy(ctx context.Context, pid int) float64 {
	before, began := ticks(pid), time.Now()
	select {
	case <-ctx.Done():
		return 0
	case <-time.After(busyWindow):
	}
	return float64(ticks(pid)-before) / clockTicks / time.Since(began).Seconds()
}

// clockTicks is USER_HZ: how many ticks /proc counts in a second, on every Linux.
const clockTicks = 100

// ticks returns the processor time of a process, in clock ticks (proc_pid_stat(5), fields 14 and 15).
func ticks(pid int) int64 {
	stat := procFile("/proc/"+strconv.Itoa(pid), "stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return user + system
}

// readProc reads the state of a process from /proc.
func readProc(pid int) Evidence {
	dir := "/proc/" + strconv.Itoa(pid)
	e := Evidence{PID: pid, WChan: procFile(dir, "wchan"), Syscall: procFile(dir, "syscall"),
		Kernel: procFile(dir, "stack")}
	e.Kernel = e.Kernel[:min(len(e.Kernel), kernelBytes)]
	if state := stateOf(procFile(dir, "stat")); state != 0 {
		e.State = string(rune(state))
	}
	var threads strings.Builder
	for i, tid := range namesIn(dir + "/task") {
		if i == mostThreads {
			threads.WriteString("…\n")
			break
		}
		at := dir + "/task/" + tid
		state := "?"
		if s := stateOf(procFile(at, "stat")); s != 0 {
			state = string(rune(s))
		}
		line := []string{tid, procFile(at, "comm"), state, procFile(at, "wchan")}
		threads.WriteString(strings.Join(line, " ") + "\n")
	}
	e.Threads = threads.String()
	return e
}

// procFile reads a file of /proc; "" if that is not allowed.
func procFile(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Progress returns the newest line of progress of the worker in a directory; "": none.
func Progress(dir string) string { return lastLine(filepath.Join(dir, "progress.jsonl")) }

// lastLine returns the last complete line of a file.
func lastLine(path string) string {
	f, err := regular.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	const most = 4 << 10
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
	if err != nil {
		return ""
	}
	text, _, whole := cutLast(string(b), "\n")
	if !whole {
		return ""
	}
	_, line, _ := cutLast("\n"+text, "\n")
	return line
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
