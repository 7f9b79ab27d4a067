package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// slack is by how much a wake-up of the monitor may be late at rest. It is at most a tenth of the
// monitor's sleep while a program works for a long time.
const slack = time.Millisecond

// monitor slows the thread with which the Go runtime watches its other threads. While any thread
// runs, the monitor wakes every 20 µs. At rest it finds nothing to do, and is the thread that wakes
// most often. With timer slack its first wake-up comes when the other threads are idle again. Only
// a process with CAP_SYS_NICE may set the slack. Without that, the monitor is not slowed.
type monitor struct {
	before map[string]int64 // wake-ups by thread when the rest began
	thread string           // the thread that has slack; "": none
}

// look notes how often each thread has woken up until now.
func (m *monitor) look() { m.before = wakes() }

// slow gives slack to the thread that woke most often since look.
func (m *monitor) slow() {
	if m.thread == "" {
		m.thread = busiest(m.before, wakes())
		m.set(slack)
	}
}

// restore removes the slack.
func (m *monitor) restore() {
	m.set(0) // 0 restores the default of the thread
	m.thread = ""
}

// set sets the slack of the thread. It fails without the capability, and if the thread has ended.
func (m *monitor) set(d time.Duration) {
	if m.thread != "" {
		_ = os.WriteFile("/proc/"+m.thread+"/timerslack_ns", fmt.Append(nil, d.Nanoseconds()), 0)
	}
}

// busiest returns the thread whose count rose most.
func busiest(before, after map[string]int64) (thread string) {
	var most int64
	for t, n := range after {
		if was, there := before[t]; there && n-was > most {
			thread, most = t, n-was
		}
	}
	return thread
}

// wakes returns how often each thread of this process has woken up.
func wakes() map[string]int64 {
	const dir = "/proc/self/task/"
	all := map[string]int64{}
	threads, _ := os.ReadDir(dir) // without /proc the list is empty
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
