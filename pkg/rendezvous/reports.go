package rendezvous

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Outcome is how an attempt ended. It is the field exit in the output of `elastic status` and in the last
// event.
type Outcome struct {
	Code      int     `json:"code"`
	Source    string  `json:"source"` // worker, elastic, operator
	Node      *string `json:"node"`
	Rank      *int    `json:"rank"`
	LocalRank *int    `json:"local_rank"`
	ExitCode  *int    `json:"exit_code"`
	Signal    *string `json:"signal"`
	Why       Why     `json:"why,omitempty"`
	Message   string  `json:"message"`

	// Failure is the failure of the worker, with its traceback and the workers that failed because
	// of it; nil for other sources.
	Failure *Failure `json:"failure,omitempty"`
}

// HowEnded says how the worker that is the cause ended.
func (o *Outcome) HowEnded() string {
	switch {
	case o.Failure != nil:
		return o.Failure.Ended()
	case o.Signal != nil:
		return endedAs(o.Code, *o.Signal)
	}
	return endedAs(o.Code, "")
}

// Ready is the record with which a member reports that it stopped every older worker and has what
// generation g needs.
type Ready struct {
	Incarnation membership.Incarnation `json:"incarnation"`
	Host        string                 `json:"host,omitempty"`
	// on rank 0 the ports of master and store come first; then one for each worker
	Ports  []int `json:"ports,omitempty"`
	StopMS int64 `json:"stop_ms"`
	// since the last process of its older workers ended; null: it had none
	AfterMS *int64 `json:"after_ms,omitempty"`
	Rev     int64  `json:"-"`
}

// Exit is the record of how the workers of a member ended.
type Exit struct {
	Incarnation membership.Incarnation `json:"incarnation"`
	// by local rank; null while it runs, or if it never started
	Codes   []*int `json:"codes"`
	Planned bool   `json:"planned"`         // the member has finished a planned stop
	Waits   bool   `json:"waits,omitempty"` // its workers wait with the state of training in memory
	Rev     int64  `json:"-"`
}

// Zero reports whether every worker ended by itself with 0.
func (e Exit) Zero() bool {
	for _, c := range e.Codes {
		if c == nil || *c != 0 {
			return false
		}
	}
	return !e.Planned && len(e.Codes) > 0
}

// Ended reports whether no worker runs any more.
func (e Exit) Ended() bool {
	return e.Planned || len(e.Codes) > 0 && !slices.Contains(e.Codes, nil)
}

// Activity is what a node does that takes longer than a second. Users see it, and limits are
// extended while bytes move.
type Activity struct {
	Node string `json:"-"`
	// One of: saving, fetching, receiving (the state of a rank), checking (in seconds), unreadable
	// (Done is the number of the checkpoint), blocked (Text says why the node is not ready).
	Kind  string    `json:"what"`
	Done  int64     `json:"done"`
	Total int64     `json:"total"`
	Text  string    `json:"text,omitempty"`
	Time  time.Time `json:"time"`
	// Since is the store revision at which a node that reports unreadable read the list of nodes to
	// ask; 0: that of Rev.
	Since int64 `json:"since,omitempty"`
	Rev   int64 `json:"-"`
}

// Progress is what the workers report of their training.
type Progress struct {
	Generation       schema.Generation `json:"generation,omitempty"` // of the workers that report it
	Step             *int64            `json:"step"`
	Loss             *float64          `json:"loss"`
	Samples          *int64            `json:"samples"`
	SamplesPerSecond *float64          `json:"samples_per_second"`
	// share of the whole training, 0 to 1; nil: its length is not known
	Done     *float64 `json:"done,omitempty"`
	Left     *Seconds `json:"left,omitempty"`     // until the end, at the present rate; nil: not known
	Interval *Seconds `json:"interval,omitempty"` // usual time between two lines; nil: not known yet
	// when the first step of the generation ended, and the step before it in an older one; nil: not reported
	First  *time.Time     `json:"first,omitempty"`
	Before *time.Time     `json:"before,omitempty"`
	Time   time.Time      `json:"time"`            // of the newest line
	Stall  *history.Stall `json:"stall,omitempty"` // what a look at all ranks found; nil: steps come
	Slow   *history.Slow  `json:"slow,omitempty"`  // a rank that the others wait for in each step
	Note   string         `json:"note,omitempty"`  // what is wrong with how the script goes on
}
