// Package status describes the state of a job, and explains it, from one Snapshot.
package status

import (
	"encoding/json"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// Status is the state of a job and its reason: the object of `elastic status -o json`. Later
// versions may add fields but never rename one. Unknown values are null.
type Status struct {
	Schema     string              `json:"schema"`
	Job        schema.Job          `json:"job"`
	State      State               `json:"state"`
	Since      Timestamp           `json:"since"`
	Why        string              `json:"why"` // one sentence, for people
	WhyCode    rendezvous.Why      `json:"why_code"`
	Generation schema.Generation   `json:"generation"` // 0 before the first
	WorldSize  int                 `json:"world_size"`
	Abandoned  bool                `json:"abandoned"` // the job has not ended, and has no node
	Origin     *Origin             `json:"origin"`    // null: made by an elastic that did not record it
	Wish       Wish                `json:"wish"`
	Nodes      []Node              `json:"nodes"`
	World      []rendezvous.Seat   `json:"world"`
	Checkpoint *Checkpoint         `json:"checkpoint"`
	Untaken    *Untaken            `json:"untaken"`
	Plan       *scaling.Plan       `json:"plan"`
	Waterfall  *rendezvous.Timing  `json:"waterfall"` // of the newest World; null until it runs
	Progress   *Progress           `json:"progress"`
	Doing      []Activity          `json:"doing"`
	Restarts   Restarts            `json:"restarts"`
	Failure    *Failure            `json:"failure"` // the newest failure of a worker; null: none failed
	Exit       *rendezvous.Outcome `json:"exit"`
	Next       *string             `json:"next"` // what the user can do now
	Unread     []Unread            `json:"unreadable"`
	Server     *Server             `json:"server"`
}

// State is the state of a job.
type State string

const (
	StateWaiting   State = "waiting" // the survivors hold or are stopping; no world runs
	StateStarting  State = "starting"
	StateRunning   State = "running"
	StateFinishing State = "finishing"
	StateStopping  State = "stopping"
)

// Wish is how many nodes the operator asked for, and how many are here.
type Wish struct {
	NP       int      `json:"np"`
	Min      int      `json:"min"`
	Max      int      `json:"max"`
	Present  int      `json:"present"`
	Missing  int      `json:"missing"` // how many more nodes a World needs
	Slots    int      `json:"nproc_per_node"`
	Draining []string `json:"draining"`
	By       string   `json:"by"`
}

// Checkpoint is the newest commit.
type Checkpoint struct {
	Number     checkpoint.Number `json:"number"`
	Step       *int64            `json:"step"`
	Samples    *int64            `json:"samples"`
	Generation schema.Generation `json:"generation"`
	Time       Timestamp         `json:"time"`
	Bytes      int64             `json:"bytes"`
	Holders    []string          `json:"holders"` // nodes with a copy, without lost ones
	Copies     int               `json:"copies"`  // the number of copies, of the part with the fewest
	Parts      int               `json:"parts"`   // 0: each holder has all of it
	Replicas   int               `json:"replicas"`
}

// Untaken is a save that is newer than the newest commit, and why it was not accepted as a
// checkpoint.
type Untaken struct {
	Path   string    `json:"path"`
	Reason string    `json:"reason"`
	Text   string    `json:"text"`
	Time   Timestamp `json:"time"`
}

// Progress is what the workers reported last.
type Progress struct {
	Step             *int64   `json:"step"`
	Loss             *float64 `json:"loss"`
	Samples          *int64   `json:"samples"`
	SamplesPerSecond *float64 `json:"samples_per_second"`
	// share of the whole training; null: its length is not known
	Done        *float64  `json:"done"`
	LeftSeconds *float64  `json:"left_seconds"` // until the end, at the present rate
	Time        Timestamp `json:"time"`
	AgeSeconds  float64   `json:"age_seconds"` // of the newest report, when this status was made
	Late        bool      `json:"-"`           // the next report is overdue
	Stale       bool      `json:"stale"`       // the job runs, and has not reported for very long
	// Stall is what a look at all ranks found meanwhile; null: none was needed, or none was made yet.
	Stall *history.Stall `json:"stall"`
	Slow  *history.Slow  `json:"slow"` // a rank that the others wait for in each step; null: none
	Note  string         `json:"note"` // what is wrong with how the script goes on; "": nothing is
}

// Activity is what a node does that takes longer than a second.
type Activity struct {
	Node  string    `json:"node"`
	What  string    `json:"what"`
	Done  int64     `json:"done"`
	Total int64     `json:"total"`
	Text  string    `json:"text,omitempty"` // why the node is blocked
	Time  Timestamp `json:"time"`
}

// Restarts is the restart budget.
type Restarts struct {
	Used int `json:"used"`
	Max  int `json:"max"`
}

// Server is the server that this status was read from. The reader fills it in.
type Server struct {
	Kind      string   `json:"kind"` // local, elasticd, etcd
	Endpoints []string `json:"endpoints"`
	Reachable bool     `json:"reachable"`
	// Silent are those of the endpoints that do not answer, where there are several.
	Silent []string `json:"silent,omitempty"`
}

// Timestamp is a time as scripts see it: UTC with milliseconds, null if it is not known.
type Timestamp struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (m Timestamp) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(m.UTC().Format(history.TimeFormat))
}

// Unread is a record of a node outside of the world that cannot be read. The job goes on without
// that node.
type Unread struct {
	Key string `json:"key"`
	Why string `json:"why"`
}
