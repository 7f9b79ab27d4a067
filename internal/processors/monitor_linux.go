package processors

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// slack is by how much a wake-up of the monitor may come late at rest: at most a tenth of what it
// sleeps while a program works for long.
const slack = time.Millisecond

// monitor is the thread with which the Go runtime watches its other threads. While anything runs it
// wakes after 20 µs, and again and again, and at rest it finds nothing to do: it is the thread that
// wakes most often then. With timer slack its first wake-up comes when the others rest again. The
// kernel lets a process with CAP_SYS_NICE change that; where it does not, the monitor stays as it is.
type monitor struct {
	before map[string]int64 // wakes when the rest began
	thread string           // that has slack; "": none
}

// look notes how often each thread has woken up by now.
func (m *monitor) look() { m.before = wakes() }

// slow gives slack to the thread that woke most often since look, until restore.
func (m *monitor) slow() {
	if m.thread == "" {
		m.thread = busiest(m.before, wakes())
		m.set(slack)
	}
}

// restore takes the slack back.
func (m *monitor) restore() {
	m.set(0) // the default of the thread
	m.thread = ""
}

// set fails without the capability, and for a thread that has ended.
func (m *monitor) set(d time.Duration) {
	if m.thread != "" {
		_ = os.WriteFile("/proc/"+m.thread+"/timerslack_ns", fmt.Append(nil, d.Nanoseconds()), 0)
	}
}

// busiest is the thread whose count rose most.
func busiest(before, after map[string]int64) (thread string) {
	var most int64
	for t, n := range after {
		if was, there := before[t]; there && n-was > most {
			thread, most = t, n-was
		}
	}
	return thread
}

// wakes is how often each thread of this process has woken up.
func wakes() map[string]int64 {
	const dir = "/proc/self/task/"
	all := map[string]int64{}
	threads, _ := os.ReadDir(dir) // without /proc there is none
	for _, t := range threads {
		status, _ := os.ReadFile(dir + t.Name() + "/status")
		_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		line, _, _ := strings.Cut(rest, "\n")
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
			all[t.Name()] = n
		}
	}
	return all
}
