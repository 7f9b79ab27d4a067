package rendezvous

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// Status is where a job is and why: the object of `elastic status -o json`. Its fields may grow in
// number and never change their names; what is not known is null.
type Status struct {
	Schema     string            `json:"schema"`
	Job        schema.Job        `json:"job"`
	State      State             `json:"state"`
	Since      Moment            `json:"since"`
	Why        string            `json:"why"` // one sentence, for people
	WhyCode    Why               `json:"why_code"`
	Generation schema.Generation `json:"generation"` // 0 before the first
	WorldSize  int               `json:"world_size"`
	Abandoned  bool              `json:"abandoned"` // no node is left, and it has not ended
	Origin     *OriginStatus     `json:"origin"`    // null: made by an elastic that did not record it
	Wish       WishStatus        `json:"wish"`
	Nodes      []NodeStatus      `json:"nodes"`
	World      []Seat            `json:"world"`
	Checkpoint *CheckpointStatus `json:"checkpoint"`
	Plan       *scaling.Plan     `json:"plan"`
	Waterfall  *Waterfall        `json:"waterfall"` // of the newest World; null until it runs
	Progress   *ProgressStatus   `json:"progress"`
	Doing      []DoingStatus     `json:"doing"`
	Restarts   RestartStatus     `json:"restarts"`
	Exit       *Outcome          `json:"exit"`
	Next       *string           `json:"next"` // what there is for the user to do
	Server     *ServerStatus     `json:"server"`
}

// State is where a job is.
type State string

const (
	StateWaiting   State = "waiting" // the survivors hold or are stopping; no world runs
	StateStarting  State = "starting"
	StateRunning   State = "running"
	StateFinishing State = "finishing"
	StateStopping  State = "stopping"
)

// The codes of why that no Hold has.
const (
	WhyBarrier   Why = "barrier"
	WhyFetching  Why = "fetching"
	WhyRunning   Why = "running"
	WhyFinishing Why = "finishing"
)

// WishStatus is what is wished, and what of it is here.
type WishStatus struct {
	NP       int      `json:"np"`
	Min      int      `json:"min"`
	Max      int      `json:"max"`
	Present  int      `json:"present"`
	Missing  int      `json:"missing"` // for there to be a world
	Slots    int      `json:"nproc_per_node"`
	Draining []string `json:"draining"`
	By       string   `json:"by"`
}

// CheckpointStatus is the newest commit.
type CheckpointStatus struct {
	Number     checkpoint.Number `json:"number"`
	Step       *int64            `json:"step"`
	Samples    *int64            `json:"samples"`
	Generation schema.Generation `json:"generation"`
	Time       Moment            `json:"time"`
	Bytes      int64             `json:"bytes"`
	Holders    []string          `json:"holders"` // that are not lost
	Replicas   int               `json:"replicas"`
}

// ProgressStatus is what the workers told last.
type ProgressStatus struct {
	Step             *int64   `json:"step"`
	Loss             *float64 `json:"loss"`
	Samples          *int64   `json:"samples"`
	SamplesPerSecond *float64 `json:"samples_per_second"`
	Time             Moment   `json:"time"`
	AgeSeconds       float64  `json:"age_seconds"` // of the newest line, when this status was made
	Stale            bool     `json:"stale"`       // the job runs, and tells none for much longer than usual
}

// DoingStatus is what takes a node longer than a second.
type DoingStatus struct {
	Node  string `json:"node"`
	What  string `json:"what"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Time  Moment `json:"time"`
}

// RestartStatus is the restart budget.
type RestartStatus struct {
	Used int `json:"used"`
	Max  int `json:"max"`
}

// ServerStatus is where all this was read; whoever read it fills it in.
type ServerStatus struct {
	Kind      string   `json:"kind"` // local, elasticd, etcd
	Endpoints []string `json:"endpoints"`
	Reachable bool     `json:"reachable"`
}

// Moment is a time as scripts see it: UTC with milliseconds, null if it is not known.
type Moment struct{ time.Time }

func (m Moment) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(m.UTC().Format(history.TimeFormat))
}

// Explain says where the job of s is and why. It knows the keys and nothing else: a member without a
// registration is lost once an event says so, and in doubt until then. s is whole, with its
// events, and has a job.
func Explain(s *Snapshot, now time.Time) Status {
	x := newExplainer(s, now)
	st := Status{Schema: "elastic.status/1", Job: s.Job.Name, World: []Seat{}, Doing: []DoingStatus{},
		Restarts: RestartStatus{Max: s.Job.Rules.MaxRestarts}}
	if s.World != nil {
		st.Generation, st.WorldSize, st.World, st.Plan = s.World.Generation, s.World.Size(), s.World.Layout(), s.World.Plan
	}
	st.Wish = x.wish()
	verdict := x.verdict()
	st.State, st.WhyCode, st.Why, st.Since = verdict.state, verdict.code, verdict.text, Moment{verdict.since}
	if x.w != nil {
		st.Restarts.Used = x.w.Ledger.Used
		if x.w.Phase.Ended() {
			st.Exit = x.w.Outcome
		}
	}
	st.Nodes = x.nodes(st.State)
	st.Checkpoint = x.checkpoint()
	st.Waterfall = x.waterfall()
	if st.Progress = x.progress(); st.Progress != nil && st.Progress.Stale && st.State == StateRunning {
		st.Why += "; " + st.Progress.stale()
	}
	st.Abandoned = x.abandoned()
	if o := s.Job.Origin; o.Owner != "" {
		st.Origin = &OriginStatus{o, Moment{s.Job.Time}}
	}
	for _, d := range s.Doing {
		st.Doing = append(st.Doing, DoingStatus{d.Node, d.What, d.Done, d.Total, Moment{d.Time}})
	}
	if next := st.next(s.Job.Limits.Exact); next != "" {
		st.Next = &next
	}
	return st
}

// Ended reports whether the attempt is over.
func (st Status) Ended() bool { return Phase(st.State).Ended() }

// Waiting is the sentence that says how many nodes are missing, "" if none is.
func (st Status) Waiting() string {
	m := st.Wish.Missing
	if m == 0 {
		return ""
	}
	return fmt.Sprintf("waiting for %s (%d of %d)", moreNodes(m), st.Wish.Present, st.Wish.NP)
}

func moreNodes(n int) string {
	if n == 1 {
		return "1 more node"
	}
	return fmt.Sprintf("%d more nodes", n)
}

// next is what there is for the user to do.
func (st Status) next(exact bool) string {
	again := "the same `elastic run` line starts a new attempt, from scratch"
	if st.Checkpoint != nil {
		again = fmt.Sprintf("the same `elastic run` line starts a new attempt, from checkpoint %d", st.Checkpoint.Number)
	}
	switch {
	case st.Abandoned && st.State != StateStopping:
		return fmt.Sprintf("no node is left: `elastic run` goes on with it, elastic stop %s ends it", st.Job)
	case st.Progress != nil && st.Progress.Stale && st.State == StateRunning && len(st.World) > 0:
		return fmt.Sprintf("if it hangs: workerlog.0 of node %s has the output of rank 0", st.World[0].Node)
	case st.State == "failed" && st.Exit != nil && st.Exit.Node != nil && st.Exit.LocalRank != nil:
		return fmt.Sprintf("see workerlog.%d of node %s; %s", *st.Exit.LocalRank, *st.Exit.Node, again)
	case st.State == "failed", st.State == "stopped":
		return again
	case st.State == StateStopping && st.Wish.Present == 0:
		return fmt.Sprintf("no node is left to end it: elastic stop %s", st.Job)
	case st.WhyCode == PlanImpossible:
		return fmt.Sprintf("elastic scale %s --np=N, with an N that the batch fits", st.Job)
	case st.State != StateWaiting || st.WhyCode != NodesMissing || st.Wish.Missing == 0:
		return ""
	case exact && st.Wish.Present > 0:
		return fmt.Sprintf("`elastic run` on %s, or: elastic scale %s --np=%d", moreNodes(st.Wish.Missing), st.Job, st.Wish.Present)
	}
	return fmt.Sprintf("`elastic run` on %s", moreNodes(st.Wish.Missing))
}

// explainer is a planner that says instead of doing. Its w is nil while the world is of an earlier attempt.
type explainer struct {
	planner
	words map[string]word // the last that events say of each node
}

func newExplainer(s *Snapshot, now time.Time) *explainer {
	x := &explainer{planner: planner{s: s, t: DefaultTimes, now: now}, words: lastWords(s.Events)}
	w := s.World
	if w == nil {
		return x
	}
	refs := append(w.Members[:len(w.Members):len(w.Members)], w.Leavers...)
	x.v = membership.Judge(refs, s.Nodes, s.Left, s.Suspects, membership.Evidence{}, membership.Limits{}, now)
	if w.Attempt == s.Job.Attempt {
		x.w, x.m = w, Marks{Phase: w.Time}
	}
	return x
}

func (x *explainer) wish() WishStatus {
	s := x.s
	present, np, missing := Shortage(s, x.v)
	w := WishStatus{NP: np, Min: s.Job.Limits.Min, Max: s.Job.Limits.Max, Present: present, Missing: missing,
		Slots: s.Job.Slots, Draining: []string{}, By: s.Wish.By}
	if s.Job.Limits.Exact {
		w.Min, w.Max = np, np
	}
	for _, n := range s.Wish.Drain {
		if s.Node(n) != nil {
			w.Draining = append(w.Draining, n)
		}
	}
	return w
}

func (x *explainer) checkpoint() *CheckpointStatus {
	h := x.s.Head
	if h.Number == 0 {
		return nil
	}
	c := &CheckpointStatus{Number: h.Number, Step: h.Step, Samples: h.Samples, Generation: h.Generation,
		Time: Moment{h.Time}, Bytes: h.Bytes, Holders: []string{}, Replicas: x.s.Job.Rules.Replicas}
	seen := map[string]bool{}
	add := func(node string) {
		if !seen[node] && x.s.holds(node) && (x.s.Node(node) != nil || x.words[node].kind != history.NodeLost) {
			c.Holders = append(c.Holders, node)
		}
		seen[node] = true
	}
	for _, r := range h.Holders {
		add(r.Node)
	}
	for _, n := range x.s.Nodes {
		add(n.Node)
	}
	return c
}

func join(names []string) string {
	const most = 8
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
