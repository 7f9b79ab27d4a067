package worker

import "time"

// wireFD is the guardian's end of the socket on which it and the agent exchange gob values (arguments
// and environment are bytes, not text). The pipes of the workers follow it.
const wireFD = 3

// order is a request of the agent. Exactly one field is set.
type order struct {
	Warm  *warmOrder  // the first, if it is given
	Start *startOrder // the first but for Warm, once
	Ask   *Drain
	Stop  *stopOrder
}

type startOrder struct {
	Dir     string
	Drain   string // path of the drain file
	Mark    string // of this group
	Cgroup  string // "": none
	Workers []workerOrder
	Streams []streamOrder
	Lead    time.Duration // before the workers of other ranks than 0 start
	TTY     int           // 0: none
}

// workerOrder names the write ends by descriptor; both may be the same.
type workerOrder struct {
	Argv []string
	Env  []string
	CPUs []int
	Rank int
	Out  int
	Err  int
}

// streamOrder has the guardian's own copies of read ends, and the file for the bytes that the agent
// leaves in them: those in Staged come first, since they left the worker's pipe earlier.
type streamOrder struct {
	Staged, Read int
	Log          string
}

type stopOrder struct {
	Grace time.Duration
}

// report is what the guardian says. Exactly one field is set.
type report struct {
	Started []started // all of them
	Failed  *failed   // one could not be started; the others are being killed
	Exit    *exitReport
	Asked   *answer // to Ask
	Killing bool    // a round of SIGKILL was sent: said until nothing is left
	Empty   bool    // no process is left; the last report
}

type answer struct {
	Text string // of the error, or ""
}

type started struct {
	PID   int
	Start uint64 // in clock ticks since boot, 0 if it ended already
}

type failed struct {
	Worker int
	Errno  int
	Text   string
}

type exitReport struct {
	Worker int
	Status uint32 // of wait(2)
	Ours   bool
	At     time.Time
}
