// Package rendezvous says what the job is, what is wished of it, and which
// World holds.
//
// Snapshot is one read of the whole job. Plan is a pure function from a
// Snapshot, judged, to the next step. Requests are the transactions that make
// a step true, each with the guards that keep it true when it arrives late.
// Nobody is in charge: any agent may take any step, and the store picks one.
package rendezvous

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// Limits are the sizes that a World may have, in nodes.
type Limits struct {
	Min   int  `json:"min"`
	Max   int  `json:"max"`
	Exact bool `json:"exact"` // --np=N: exactly N form a World, and scale may set any N
}

// String is how a user writes it.
func (l Limits) String() string {
	if l.Exact {
		return fmt.Sprint(l.Max)
	}
	return fmt.Sprintf("%d:%d", l.Min, l.Max)
}

// Seconds is a duration, written in seconds for those who read the store.
type Seconds time.Duration

func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var f float64
	err := json.Unmarshal(b, &f)
	*s = Seconds(f * float64(time.Second))
	return err
}

// Rules are the settings of a job that are no sizes.
type Rules struct {
	MaxRestarts   int     `json:"max_restarts"`
	LastCall      Seconds `json:"last_call"`
	Grace         Seconds `json:"grace"`
	FinishTimeout Seconds `json:"finish_timeout"` // 0: none
	Replicas      int     `json:"replicas"`
	Keep          int     `json:"keep"`
	Load          string  `json:"load"`
}

// Job is what the job is. Its first agent makes it; only a new attempt changes it.
type Job struct {
	Name     schema.Job   `json:"-"`
	UID      schema.UID   `json:"uid"`
	Attempt  int          `json:"attempt"` // 1, 2, …: a run of the job after it failed or was stopped
	Limits   Limits       `json:"limits"`
	Slots    int          `json:"slots"` // workers a node
	Base     scaling.Base `json:"base"`
	Rules    Rules        `json:"rules"`
	Succeeds schema.UID   `json:"succeeds,omitempty"` // the uid that it had in a store that was lost
	Lineage  []schema.UID `json:"lineage,omitempty"`  // and those before that one, if it was lost more than once
	// Adopted is the number that its first checkpoint had in that store; 0: none was found.
	Adopted checkpoint.Number `json:"adopted,omitempty"`
	Made    bool              `json:"made,omitempty"` // its id was made up: it is stopped when its last node leaves
	Origin  Origin            `json:"origin,omitzero"`
	Time    time.Time         `json:"time"`
	Rev     int64             `json:"-"`
}

// Wish is what the operator asked.
type Wish struct {
	NP      int       `json:"np"`              // the size that is wanted
	Drain   []string  `json:"drain"`           // nodes that are to go
	Stop    int       `json:"stop"`            // the attempt that it ends; 0: none
	Grace   Seconds   `json:"grace,omitempty"` // of that stop; 0: the job's
	Request string    `json:"request"`         // a wish is a cause by its id: 3→1→3 must restart those who stopped
	By      string    `json:"by"`              // run, scale, drain, stop
	Time    time.Time `json:"time"`
	Rev     int64     `json:"-"`
}

// Phase is where a World is. forming → running → finishing → done; the first three →
// waiting, and never back: the same members, too, go on as the next generation.
type Phase string

const (
	Forming   Phase = "forming"
	Running   Phase = "running"
	Finishing Phase = "finishing"
	Waiting   Phase = "waiting"
	Done      Phase = "done"
	Failed    Phase = "failed"
	Stopped   Phase = "stopped"
)

// Ended reports whether no step leads out of p within its attempt.
func (p Phase) Ended() bool { return p == Done || p == Failed || p == Stopped }

// Why says why a World waits; it is the why_code of status and events.
type Why string

const (
	NodesMissing   Why = "nodes-missing"
	LastCall       Why = "last-call"
	Saving         Why = "saving"
	BackingOff     Why = "backoff"
	Draining       Why = "draining"
	PlanImpossible Why = "plan-impossible"
	NoProgress     Why = "no-progress"
	RestartsUsed   Why = "restarts-used"
	CheckpointLost Why = "checkpoint-lost"
)

// Hold is why the survivors wait.
type Hold struct {
	Why     Why     `json:"why"`
	Text    string  `json:"text"`
	Planned bool    `json:"planned"`           // the workers are asked to save first
	Reason  string  `json:"reason,omitempty"`  // planned: scale, join, drain, stop, leave
	Grace   Seconds `json:"grace,omitempty"`   // planned: for the save; 0: the job's
	Backoff Seconds `json:"backoff,omitempty"` // why = backoff: how long
	Present int     `json:"present"`
	Cause   Cause   `json:"cause"` // of the World that will end it
}

// Limit is how long the workers of j may take to save in a planned Hold.
func (h *Hold) Limit(j *Job) time.Duration {
	if h.Grace > 0 {
		return time.Duration(h.Grace)
	}
	return time.Duration(j.Rules.Grace)
}

// Cause is why a World was proposed.
type Cause string

const (
	First        Cause = "first"
	NewAttempt   Cause = "attempt"
	NodeLost     Cause = "node-lost"
	NodeJoined   Cause = "node-joined"
	Scale        Cause = "scale"
	WorkerFailed Cause = "worker-failed"
	Drain        Cause = "drain"
	Asked        Cause = "asked"      // a worker ended with 101 or 102
	BadHead      Cause = "checkpoint" // the newest commit cannot be read: an older one takes its place
)

// Resume is the checkpoint that a generation starts from.
type Resume struct {
	Number   checkpoint.Number `json:"number"`
	Manifest checkpoint.Hash   `json:"manifest"`
	Step     *int64            `json:"step"`
	Samples  *int64            `json:"samples"`
	Holders  []string          `json:"holders"`
}

// Master is where the workers of a running World meet: fresh for each generation, on the node of rank 0.
type Master struct {
	Host  string `json:"host"`
	Port  int    `json:"port"`
	Store int    `json:"store"` // a second port, for Paddle's store
}

// Quarantine keeps a node out of plans that it held up, until that generation.
type Quarantine struct {
	Node  string            `json:"node"`
	Until schema.Generation `json:"until"`
	Times int               `json:"times"`
}

// World is the ranked nodes of one Generation. Its members, leavers and resume never change;
// only phase, hold, outcome and, with running, the master do.
type World struct {
	UID        schema.UID        `json:"uid"`
	Generation schema.Generation `json:"generation"`
	Attempt    int               `json:"attempt"`
	Phase      Phase             `json:"phase"`
	Time       time.Time         `json:"time"` // of the phase, for people
	Hold       *Hold             `json:"hold,omitempty"`
	Proposal   string            `json:"proposal"`
	Turn       string            `json:"turn,omitempty"`    // random, new with every phase
	Count      int               `json:"count"`             // of the members
	Members    []membership.Ref  `json:"members,omitempty"` // in rank order; above inline, in plan/
	Chunks     int               `json:"chunks,omitempty"`
	Leavers    []membership.Ref  `json:"leavers,omitempty"` // of older generations, who must stop before this one runs
	Slots      int               `json:"slots"`
	Previous   int               `json:"previous"` // world size of the newest World that ran before
	Resume     *Resume           `json:"resume"`
	Plan       *scaling.Plan     `json:"plan"`
	LRScale    float64           `json:"lr_scale"`
	Cause      Cause             `json:"cause,omitempty"`
	CauseText  string            `json:"cause_text,omitempty"`
	Request    string            `json:"request,omitempty"` // the wish that was read, and when it was written
	WishRev    int64             `json:"wish_rev,omitempty"`
	NP         int               `json:"np"` // the wish's size
	Ledger     Ledger            `json:"ledger"`
	Quarantine []Quarantine      `json:"quarantine,omitempty"`
	Master     *Master           `json:"master,omitempty"`
	Outcome    *Outcome          `json:"outcome,omitempty"`
	// Told are the members whose loss an event told of already.
	Told []membership.Incarnation `json:"told,omitempty"`
	Rev  int64                    `json:"-"`
}

// inline is the size above which members are kept outside the world record, so that those who
// watch it are not all sent all of it again for each phase.
const inline = 100

// Size is the number of workers.
func (w *World) Size() int { return w.Count * w.Slots }

// Rank is the place of r among the members, or -1.
func (w *World) Rank(r membership.Ref) int { return index(w.Members, r) }

// Leaver reports whether r must stop before this generation runs.
func (w *World) Leaver(r membership.Ref) bool { return index(w.Leavers, r) >= 0 }

func index(refs []membership.Ref, r membership.Ref) int {
	for i, m := range refs {
		if m.Same(r) {
			return i
		}
	}
	return -1
}

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
}

// Ready is a member's word that it stopped every older worker and has what generation g needs.
type Ready struct {
	Incarnation membership.Incarnation `json:"incarnation"`
	Host        string                 `json:"host,omitempty"`
	Ports       []int                  `json:"ports,omitempty"` // rank 0: master and store first; then one a worker
	StopMS      int64                  `json:"stop_ms"`
	AfterMS     *int64                 `json:"after_ms,omitempty"` // since nothing of its workers was left; null: it had none
	Rev         int64                  `json:"-"`
}

// Exit is how the workers of a member ended.
type Exit struct {
	Incarnation membership.Incarnation `json:"incarnation"`
	Codes       []*int                 `json:"codes"`   // by local rank; null while it runs, or if it never started
	Planned     bool                   `json:"planned"` // the member is through with a planned stop
	Rev         int64                  `json:"-"`
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

// Failure is the first failure of a generation; others are its victims.
type Failure struct {
	Node        string                 `json:"node"`
	Incarnation membership.Incarnation `json:"incarnation"`
	Rank        int                    `json:"rank"`
	LocalRank   int                    `json:"local_rank"`
	Code        int                    `json:"code"`
	Signal      string                 `json:"signal,omitempty"`
	Message     string                 `json:"message,omitempty"`
	Time        time.Time              `json:"time"`
	Rev         int64                  `json:"-"`
}

// Again reports whether the worker asked for a new generation (Paddle's 101 and 102).
func (f Failure) Again() bool { return f.Signal == "" && (f.Code == 101 || f.Code == 102) }

// Status is the exit status that a job ends with because of it: 128+N for a signal.
func (f Failure) Status() int { return f.Code }

func (f Failure) String() string {
	if f.Signal != "" {
		return fmt.Sprintf("rank %d on %s was ended by %s", f.Rank, f.Node, f.Signal)
	}
	return fmt.Sprintf("rank %d on %s ended with exit code %d", f.Rank, f.Node, f.Code)
}

// Doing is what a node does that takes longer than a second, for people and for the limits that
// wait while bytes move.
type Doing struct {
	Node  string    `json:"-"`
	What  string    `json:"what"` // saving, fetching, unreadable (Done is the number of the checkpoint)
	Done  int64     `json:"done"`
	Total int64     `json:"total"`
	Time  time.Time `json:"time"`
	Rev   int64     `json:"-"`
}

// Progress is what the workers tell of their training.
type Progress struct {
	Step             *int64    `json:"step"`
	Loss             *float64  `json:"loss"`
	Samples          *int64    `json:"samples"`
	SamplesPerSecond *float64  `json:"samples_per_second"`
	Interval         *Seconds  `json:"interval,omitempty"` // usual time between two lines; nil: not known yet
	Time             time.Time `json:"time"`               // of the newest line
}
