package worker

import "time"

// wireFD is the guardian's end of the socket to the agent. They exchange gob values, because
// arguments and variables are bytes and not text. The descriptors of the pipes follow it.
const wireFD = 3

// order is a request of the agent. Exactly one field is set.
type order struct {
	Warm  *warmOrder  // optional; before Start
	Start *startOrder // once
	Ask   *Drain
	Stop  *stopOrder
}

type startOrder struct {
	Dir     string
	Drain   string // path of the drain file
	Mark    string // the mark of this group
	Cgroup  string // "": none
	Workers []workerOrder
	Streams []streamOrder
	Lead    time.Duration // pause before the workers of other ranks than 0 start
	TTY     int           // 0: none
}

// workerOrder names the write ends by their descriptors. Out and Err may be the same.
type workerOrder struct {
	Argv []string
	Env  []string
	CPUs []int
	Rank int
	Out  int
	Err  int
}

// streamOrder has the guardian's copies of two read ends, and the log to which it writes the bytes
// that the agent leaves in them. The bytes in Staged come first, because they left the worker's
// pipe earlier.
type streamOrder struct {
	Staged, Read int
	Log          string
}

type stopOrder struct {
	Grace time.Duration
}

// report is a message of the guardian. Exactly one field is set.
type report struct {
	Started []started // all workers have started
	Failed  *failed   // a worker could not be started; the others are killed
	Exit    *exitReport
	Asked   *answer // the answer to Ask
	Killing bool    // a round of SIGKILL was sent; repeated until no process is left
	Empty   bool    // no process is left; the last report
}

type answer struct {
	Text string // the error text, or ""
}

type started struct {
	PID   int
	Start uint64 // in clock ticks since boot, 0 if the process has ended
}

type failed struct {
	Errno int
	Text  string
}

type exitReport struct {
	Worker int
	Status uint32 // as wait(2) returns it
	Ours   bool
}
