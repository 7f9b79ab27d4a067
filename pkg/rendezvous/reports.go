package rendezvous

import (
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Outcome is how an attempt ended; the exit of status and of the last event.
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

	// Failure is that of the worker, with its traceback and the workers that failed because of it;
	// nil for other sources.
	Failure *Failure `json:"failure,omitempty"`
}

// HowEnded says how the worker ended that was the cause.
func (o *Outcome) HowEnded() string {
	switch {
	case o.Failure != nil:
		return o.Failure.Ended()
	case o.Signal != nil:
		return endedAs(o.Code, *o.Signal)
	}
	return endedAs(o.Code, "")
}

// Ready is a member's word that it stopped every older worker and has what generation g needs.
type Ready struct {
	Incarnation membership.Incarnation `json:"incarnation"`
	Host        string                 `json:"host,omitempty"`
	// rank 0: master and store first; then one a worker
	Ports  []int `json:"ports,omitempty"`
	StopMS int64 `json:"stop_ms"`
	// since nothing of its workers was left; null: it had none
	AfterMS *int64 `json:"after_ms,omitempty"`
	Rev     int64  `json:"-"`
}

// Exit is how the workers of a member ended.
type Exit struct {
	Incarnation membership.Incarnation `json:"incarnation"`
	// by local rank; null while it runs, or if it never started
	Codes   []*int `json:"codes"`
	Planned bool   `json:"planned"` // the member is through with a planned stop
	Rev     int64  `json:"-"`
}

// Zero reports whether every worker ended of itself with 0.
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
	if e.Planned {
		return true
	}
	for _, c := range e.Codes {
		if c == nil {
			return false
		}
	}
	return len(e.Codes) > 0
}

// Activity is what a node does that takes longer than a second, for people and for the limits that
// wait while bytes move.
type Activity struct {
	Node string `json:"-"`
	// saving, fetching, receiving (the state of a rank), checking (in seconds), unreadable (Done is
	// the number of the checkpoint)
	Kind  string    `json:"what"`
	Done  int64     `json:"done"`
	Total int64     `json:"total"`
	Time  time.Time `json:"time"`
	// Since is the revision of the store at which unreadable read the nodes to ask; 0: that of Rev
	Since int64 `json:"since,omitempty"`
	Rev   int64 `json:"-"`
}

// WarmWorkers are the processes of a node that wait to be its next workers, for people.
type WarmWorkers struct {
	Node  string `json:"-"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"` // of memory; of what processes share, their part
	Rev   int64  `json:"-"`
}

// Progress is what the workers tell of their training.
type Progress struct {
	Generation       schema.Generation `json:"generation,omitempty"` // of the workers that report it
	Step             *int64            `json:"step"`
	Loss             *float64          `json:"loss"`
	Samples          *int64            `json:"samples"`
	SamplesPerSecond *float64          `json:"samples_per_second"`
	// share of the whole training, 0 to 1; nil: its end is not known
	Done     *float64 `json:"done,omitempty"`
	Left     *Seconds `json:"left,omitempty"`     // until the end, at the rate of now; nil: not known
	Interval *Seconds `json:"interval,omitempty"` // usual time between two lines; nil: not known yet
	// First is when the first step of the generation ended; nil: not reported.
	First *time.Time `json:"first,omitempty"`
	// Before is when the step before that ended, in an older generation; nil: not reported.
	Before *time.Time `json:"before,omitempty"`
	Time   time.Time  `json:"time"` // of the newest line
}
