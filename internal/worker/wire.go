package worker

import "time"

// What agent and guardian say to each other, as JSON values on a socket. The
// socket is the guardian's file descriptor 3; the pipes of the workers follow.
const wireFD = 3

// order is what the agent wants. Exactly one field is set.
type order struct {
	Start *startOrder `json:"start,omitempty"` // the first, once
	Ask   *Drain      `json:"ask,omitempty"`
	Stop  *stopOrder  `json:"stop,omitempty"`
}

type startOrder struct {
	Argv    []string      `json:"argv"`
	Dir     string        `json:"dir"`
	Drain   string        `json:"drain"`  // path of the drain file
	Mark    string        `json:"mark"`   // of this group
	Cgroup  string        `json:"cgroup"` // "": none
	Workers []workerOrder `json:"workers"`
	Streams []streamOrder `json:"streams"`
}

// workerOrder names the write ends by descriptor; both may be the same.
type workerOrder struct {
	Env []string `json:"env"`
	Out int      `json:"out"`
	Err int      `json:"err"`
}

// streamOrder is the guardian's own copy of a read end, and where to put what
// the agent leaves in it.
type streamOrder struct {
	Read int    `json:"read"`
	Log  string `json:"log"`
}

type stopOrder struct {
	Grace time.Duration `json:"grace"`
}

// report is what the guardian says. Exactly one field is set.
type report struct {
	Started []started   `json:"started,omitempty"` // all of them
	Failed  *failed     `json:"failed,omitempty"`  // one could not be started; the others are being killed
	Exit    *exitReport `json:"exit,omitempty"`
	Asked   *string     `json:"asked,omitempty"`   // answer to Ask: an error, or ""
	Killing bool        `json:"killing,omitempty"` // a round of SIGKILL was sent: said until nothing is left
	Empty   bool        `json:"empty,omitempty"`   // no process is left; the last report
}

type started struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since boot, 0 if it ended already
}

type failed struct {
	Worker int    `json:"worker"`
	Errno  int    `json:"errno"`
	Text   string `json:"text"`
}

type exitReport struct {
	Worker int       `json:"worker"`
	Status uint32    `json:"status"` // of wait(2)
	Ours   bool      `json:"ours"`
	At     time.Time `json:"at"`
}
