package hang

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/internal/regular"
)

// Evidence is what can be seen of a worker that makes no progress. Each part is bounded.
type Evidence struct {
	LocalRank int    `json:"local_rank"`
	Rank      int    `json:"rank"`
	PID       int    `json:"pid"`
	State     string `json:"state"` // of its main thread: R, S, D, T…
	WChan     string `json:"wchan"` // where it sleeps in the kernel; "" or 0: unknown
	Syscall   string `json:"syscall"`
	Kernel    string `json:"kernel"`   // its stack there, where we may read it
	Threads   string `json:"threads"`  // a line for each: number, name, state, where it sleeps
	Stack     string `json:"stack"`    // of Python, by py-spy, by the helper or by faulthandler
	Flight    []byte `json:"flight"`   // a dump of torch's flight recorder: JSON or pickle
	Progress  string `json:"progress"` // the last line of its progress file
	// Collective is the last one that Flight has; nil: none.
	Collective *diagnosis.Collective `json:"collective,omitempty"`
}

// Fit shortens evidence that is too large to be sent and kept: most bytes are for this rank.
func (e *Evidence) Fit(most int) {
	if len(e.Flight) > most/2 {
		e.Flight = nil
	}
	e.Threads = e.Threads[:min(len(e.Threads), most/8)]
	e.Kernel = e.Kernel[:min(len(e.Kernel), most/8)]
	e.Stack = e.Stack[max(0, len(e.Stack)-most/4):] // of faulthandler the main thread is the last
}

// How much of each part is kept, and how long a worker may take to answer.
const (
	StackBytes  = 64 << 10
	kernelBytes = 8 << 10
	flightBytes = 2 << 20
	mostThreads = 128
	answerLimit = 2500 * time.Millisecond
)

// Names of files in a worker's run directory, on which it is asked and answers.
const (
	helperName = "evidence" // of the Python helper: .ask is a pipe, .stacks and .flight are its answers
	flightName = "flight."  // of torch: flight.RANK.pipe is a pipe, flight.RANK its answer
)

// variables are those of a worker with a run directory. Two spellings of one thing are of older
// and newer torch.
func variables(dir string) [][]string {
	return [][]string{
		{"PYTHONFAULTHANDLER=1"},
		{"ELASTIC_EVIDENCE=" + filepath.Join(dir, helperName)},
		{"TORCH_FR_BUFFER_SIZE=1000", "TORCH_NCCL_TRACE_BUFFER_SIZE=1000"},
		{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + filepath.Join(dir, flightName)},
		{"TORCH_FR_DUMP_TEMP_FILE=" + filepath.Join(dir, flightName), "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=" +
			filepath.Join(dir, flightName)},
	}
}

// Inspect gathers what can be seen of a process without an effect on it. dir is its run directory.
func Inspect(ctx context.Context, pid int, dir string) Evidence {
	e := lookAt(pid)
	e.Progress = lastLine(filepath.Join(dir, "progress.jsonl"))
	if e.State == "T" || e.State == "t" {
		return e // it answers nothing
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var bySpy, byHelper string
	var flightOfHelper, flightOfTorch []byte
	var all sync.WaitGroup
	all.Go(func() { bySpy = pySpy(ctx, pid) })
	all.Go(func() {
		base := filepath.Join(dir, helperName)
		byHelper = string(ask(ctx, base+".ask", base+".stacks", StackBytes))
		if byHelper != "" { // the helper writes the dump, if it has one, before the stacks
			flightOfHelper = readFile(base+".flight", flightBytes)
		}
	})
	all.Go(func() {
		pipes, err := filepath.Glob(filepath.Join(dir, flightName+"*.pipe"))
		if err != nil || len(pipes) == 0 {
			return
		}
		flightOfTorch = ask(ctx, pipes[0], strings.TrimSuffix(pipes[0], ".pipe"), flightBytes)
	})
	all.Wait()
	if e.Stack = bySpy; e.Stack == "" {
		e.Stack = byHelper
	}
	if e.Flight = flightOfTorch; len(e.Flight) == 0 {
		e.Flight = flightOfHelper
	}
	if c, ok := diagnosis.ParseFlight(e.Flight); ok {
		e.Collective = &c
	}
	return e
}

// ask writes to a pipe, and waits for the file that is the answer. nil: there was no answer, or one
// that is too large to be whole. An answer that was there before is taken where nothing reads the
// pipe.
func ask(ctx context.Context, pipe, answer string, most int64) []byte {
	old := readFile(answer, most)
	_ = os.Remove(answer) // so that a new one is no old one
	f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return old
	}
	_, err = f.Write([]byte("1"))
	if cerr := f.Close(); err != nil || cerr != nil {
		return old
	}
	const pause = 50 * time.Millisecond
	last := int64(-1)
	for {
		info, err := os.Stat(answer)
		if err == nil && info.Size() > 0 && info.Size() == last {
			return readFile(answer, most) // it did not grow any more
		}
		if err == nil {
			last = info.Size()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// readFile reads a regular file of at most so many bytes; nil if it is none, or larger.
func readFile(path string, most int64) []byte {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return b
}

// lookAt reads what /proc says of a process.
func lookAt(pid int) Evidence {
	dir := "/proc/" + strconv.Itoa(pid)
	e := Evidence{PID: pid, WChan: word(dir, "wchan"), Syscall: word(dir, "syscall"),
		Kernel: word(dir, "stack")}
	e.Kernel = e.Kernel[:min(len(e.Kernel), kernelBytes)]
	if state := stateOf(word(dir, "stat")); state != 0 {
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
		if s := stateOf(word(at, "stat")); s != 0 {
			state = string(rune(s))
		}
		line := []string{tid, word(at, "comm"), state, word(at, "wchan")}
		threads.WriteString(strings.Join(line, " ") + "\n")
	}
	e.Threads = threads.String()
	return e
}

// word is a file of /proc; "" where we may not read it.
func word(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// pySpy asks py-spy for the stacks of a process; "" where there is none, or it may not look.
func pySpy(ctx context.Context, pid int) string {
	path, err := exec.LookPath("py-spy")
	if err != nil {
		return ""
	}
	cmd := exec.CommandContext(ctx, path, "dump", "--nonblocking", "--pid", strconv.Itoa(pid))
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return ""
	}
	return string(out[:min(len(out), StackBytes)])
}

// lastLine is the last whole line of a file.
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
