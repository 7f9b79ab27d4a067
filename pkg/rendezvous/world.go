package rendezvous

import (
	"fmt"
	"maps"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// Phase is the phase of a World: forming → running → finishing → done, and from the first three →
// waiting. A World never runs again after waiting: the next generation follows, even with the same
// members. If the attempt fails or is stopped, its last World becomes failed or stopped.
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

// Ended reports whether p is the last phase of an attempt.
func (p Phase) Ended() bool { return p == Done || p == Failed || p == Stopped }

// Why is why a World waits: the why_code of status and events.
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
	LossNaN        Why = "loss-nan"
	ScriptFails    Why = "script-fails"
)

// Reasons that only a status has, and no Hold.
const (
	// CheckpointMissing is before the first World of a job that is to go on from a checkpoint.
	CheckpointMissing Why = "checkpoint-missing"
	WhyBarrier        Why = "barrier"
	WhyFetching       Why = "fetching"
	WhyRunning        Why = "running"
	WhyFinishing      Why = "finishing"
)

// Hold is why a World waits.
type Hold struct {
	Why     Why     `json:"why"`
	Text    string  `json:"text"`
	Planned bool    `json:"planned"`           // the workers are asked to save first
	Reason  string  `json:"reason,omitempty"`  // planned: scale, join, drain, stop, leave
	Grace   Seconds `json:"grace,omitempty"`   // of a planned Hold: for the save; 0: the job's
	Backoff Seconds `json:"backoff,omitempty"` // with why = backoff: its length
	Present int     `json:"present"`
	Cause   Cause   `json:"cause"` // the cause of the World that follows
	// Unsaved is why a stop was refused: what the workers did not save. "": none was.
	Unsaved string `json:"unsaved,omitempty"`
}

// Limit is the time that workers of j have to save in a planned Hold.
func (h *Hold) Limit(j *Job) time.Duration {
	if h.Grace > 0 {
		return time.Duration(h.Grace)
	}
	return time.Duration(j.Rules.Grace)
}

// Cause is why a World was proposed.
type Cause string

const (
	CauseFirst        Cause = "first"
	CauseAttempt      Cause = "attempt"
	CauseNodeLost     Cause = "node-lost"
	CauseNodeJoined   Cause = "node-joined"
	CauseScale        Cause = "scale"
	CauseWorkerFailed Cause = "worker-failed"
	CauseDrain        Cause = "drain"
	CauseRestart      Cause = "restart"    // an operator asked for it
	CauseAsked        Cause = "asked"      // a worker ended with 101 or 102
	CauseCheckpoint   Cause = "checkpoint" // the newest commit cannot be read: an older one takes its place
)

// Resume is the checkpoint that a generation starts from.
type Resume struct {
	Number   checkpoint.Number `json:"number"`
	Manifest checkpoint.Hash   `json:"manifest"`
	Step     *int64            `json:"step"`
	Samples  *int64            `json:"samples"`
	Holders  []string          `json:"holders"`
}

// Master is the address at which the workers of a running World meet, on the node of rank 0. Each
// generation has its own ports.
type Master struct {
	Host  string `json:"host"`
	Port  int    `json:"port"`
	Store int    `json:"store"` // a second port, for Paddle's store
}

// NodeRecord is the entry of the ledger about a node that disturbed the job: it was lost as a
// member, or its worker failed first. It is deleted after ten minutes of running with the node.
type NodeRecord struct {
	Node     string `json:"node"`
	Losses   int    `json:"losses,omitempty"`
	Failures int    `json:"failures,omitempty"` // charged to it
	Row      int    `json:"row,omitempty"`      // of them, in a row without a step between
	Used     int    `json:"used,omitempty"`     // restarts of the job that its failures used
	Step     *int64 `json:"step,omitempty"`     // where training stood at the last one; nil: not known
	// how long generations with the node ran, since it last disturbed the job
	Ran        Seconds           `json:"ran,omitempty"`
	Since      schema.Generation `json:"since"`                // the generation that it disturbed last
	Outs       int               `json:"outs,omitempty"`       // how often it was put into quarantine
	Quarantine Seconds           `json:"quarantine,omitempty"` // how long it is in quarantine; 0: it is not
	// its workers failed: a world that needs it waits. A node that was lost is taken where it is needed
	Failing bool      `json:"failing,omitempty"`
	Text    string    `json:"text,omitempty"` // why it is kept out
	Time    time.Time `json:"time,omitzero"`  // when it was put into quarantine, for people
}

// InQuarantine is the sentence about the quarantine of r.
func (r *NodeRecord) InQuarantine() string {
	return fmt.Sprintf("%s is in quarantine for %s: %s", r.Node, time.Duration(r.Quarantine), r.Text)
}

// Quarantine keeps a node that held up a barrier out of plans until generation Until.
type Quarantine struct {
	Node  string            `json:"node"`
	Until schema.Generation `json:"until"`
	Times int               `json:"times"`
}

// World is the ranked nodes of one Generation. Its members, leavers and resume never change. Each
// phase writes the record again, and with it may change the time, hold, ledger, quarantine, master,
// outcome, idle time and reported losses.
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
	Members    []membership.Ref  `json:"members,omitempty"` // in rank order; more than MaxInline are in plan/
	Chunks     int               `json:"chunks,omitempty"`  // of the list in plan/; 0: there is none
	// Leavers are nodes of older generations that must stop before this one runs. If the members
	// lie in plan/, the leavers follow them there, and Leaving is the number of leavers.
	Leavers []membership.Ref `json:"leavers,omitempty"`
	Leaving int              `json:"leaving,omitempty"`
	// Base is the proposal before, if Changes lists every difference from its members and there are
	// no leavers. A node that knows the members of Base need not read the list.
	Base       string        `json:"base,omitempty"`
	Changes    []Change      `json:"changes,omitempty"`
	Slots      int           `json:"slots"`
	Ranks      [][]int       `json:"ranks,omitempty"` // by node rank; nil: Slots in a row for each node
	Previous   int           `json:"previous"`        // world size of the newest World that ran before
	Resume     *Resume       `json:"resume"`
	Plan       *scaling.Plan `json:"plan"`
	LRScale    float64       `json:"lr_scale"`
	Cause      Cause         `json:"cause,omitempty"`
	CauseText  string        `json:"cause_text,omitempty"`
	Request    string        `json:"request,omitempty"` // the wish that was read, and when it was written
	WishRev    int64         `json:"wish_rev,omitempty"`
	NP         int           `json:"np"` // the wish's size
	Ledger     Ledger        `json:"ledger"`
	Quarantine []Quarantine  `json:"quarantine,omitempty"`
	Master     *Master       `json:"master,omitempty"`
	Outcome    *Outcome      `json:"outcome,omitempty"`
	// IdleMS is how long no worker trained before this World ran; 0: not known, or no World ran
	// before.
	IdleMS int64 `json:"idle_ms,omitempty"`
	// Causes counts the starts after the first one by cause, over all attempts.
	Causes map[Cause]Starts `json:"causes,omitempty"`
	// Unsaved says what training was lost because the workers did not save when they were asked to,
	// before this World or, if it is stopped, at its end; "": none.
	Unsaved string `json:"unsaved,omitempty"`
	// ReportedLost are the members whose loss an event reports already.
	ReportedLost []membership.Incarnation `json:"told,omitempty"`
	// Rollback is the newest generation that began from an older checkpoint than the newest commit,
	// on purpose, or for which an operator asked. Workers of an earlier generation must not keep
	// their state in memory. 0: there was none.
	Rollback schema.Generation `json:"rollback,omitempty"`
	Rev      int64             `json:"-"`
}

// Starts is how often a World ran for one cause, and the sum of the times without training before.
type Starts struct {
	Count  int   `json:"count"`
	IdleMS int64 `json:"idle_ms"`
}

// CountStart counts in w that it runs after idle time without training; 0: not known.
func (w *World) CountStart(idle time.Duration) {
	w.IdleMS = idle.Milliseconds()
	if w.Previous == 0 {
		return
	}
	w.Causes = maps.Clone(w.Causes)
	if w.Causes == nil {
		w.Causes = map[Cause]Starts{}
	}
	c := w.Causes[w.Cause]
	w.Causes[w.Cause] = Starts{Count: c.Count + 1, IdleMS: c.IdleMS + w.IdleMS}
}

// MaxInline is the number of members, or of leavers, above which both lists are kept outside the
// World record. So its watchers do not get the lists again with each phase.
const MaxInline = 100

// Size is the number of workers.
func (w *World) Size() int {
	if w.Ranks == nil {
		return w.Count * w.Slots
	}
	n := 0
	for _, ranks := range w.Ranks {
		n += len(ranks)
	}
	return n
}

// Workers is the number of workers of the node of that node rank.
func (w *World) Workers(node int) int {
	if node < len(w.Ranks) {
		return len(w.Ranks[node])
	}
	return w.Slots
}

// OtherRoles counts the workers of nodes that have another role than the node of that node rank.
func (w *World) OtherRoles(node int) (others struct{ Before, All int }) {
	for i, m := range w.Members {
		if m.Role == w.Members[node].Role {
			continue
		}
		others.All += w.Workers(i)
		if i < node {
			others.Before += w.Workers(i)
		}
	}
	return others
}

// WorkerRank is the rank of a local worker of the node of that node rank; -1 for a process that is
// no worker, such as a server.
func (w *World) WorkerRank(node, local int) int {
	switch {
	case local < 0 || local >= w.Workers(node):
		return -1
	case node < len(w.Ranks):
		return w.Ranks[node][local]
	}
	return node*w.Slots + local
}

// Rank is the node rank of r; -1 if it is no member.
func (w *World) Rank(r membership.Ref) int { return index(w.Members, r) }

// Leaver reports whether r must stop before this generation runs.
func (w *World) Leaver(r membership.Ref) bool { return index(w.Leavers, r) >= 0 }

// index returns the index of r in refs; -1: it is not there.
func index(refs []membership.Ref, r membership.Ref) int {
	for i, m := range refs {
		if m.Same(r) {
			return i
		}
	}
	return -1
}

// SameAs reports whether both are the same World, or none.
func (w *World) SameAs(o *World) bool {
	if w == nil || o == nil {
		return w == nil && o == nil
	}
	return w.Generation == o.Generation && w.Proposal == o.Proposal
}

// Seat is a node's place in a world.
type Seat struct {
	NodeRank int    `json:"node_rank"`
	Node     string `json:"node"`
	Ranks    []int  `json:"ranks"`
}

// Layout returns the World by node rank, for `elastic status`.
func (w *World) Layout() []Seat {
	seats := []Seat{}
	for i, m := range w.Members {
		s := Seat{NodeRank: i, Node: m.Node}
		for k := range w.Workers(i) {
			s.Ranks = append(s.Ranks, w.WorkerRank(i, k))
		}
		seats = append(seats, s)
	}
	return seats
}

// Record encodes the World for the store. It leaves out members and leavers that lie in plan/.
func (w World) Record() []byte {
	if w.Chunks > 0 {
		w.Members, w.Leavers = nil, nil
	}
	return schema.Encode(w)
}

// Ledger is the state of the restart rules. It is part of the World, because every agent may die.
type Ledger struct {
	Used int `json:"used"` // causes that spent budget since the last refill
	// generations in a row that spent no restart and made no progress
	NoProgress  int               `json:"idle"`
	Lost        int               `json:"lost"`         // node_lost events of members in this attempt
	Ran         int               `json:"ran"`          // generations that ran in this attempt
	Charged     schema.Generation `json:"charged"`      // the generation of the failure that was charged last
	Closed      schema.Generation `json:"closed"`       // the newest generation that is settled here
	LastFailure string            `json:"last_failure"` // for people
	// the script error that ended the last generation before it made a step; "": none did
	Script string `json:"script,omitempty"`
	// generations in a row that a loss or a failure ended without progress
	Churn   int  `json:"churn,omitempty"`
	Reports bool `json:"reports,omitempty"` // workers reported a step in this attempt
	// nodes left out since training got beyond LeftOutAt, for failures of their workers
	LeftOut   int          `json:"left_out,omitempty"`
	LeftOutAt *int64       `json:"left_out_at,omitempty"` // where training stood then; nil: not known
	Unproven  []string     `json:"unproven,omitempty"`    // members that came later, and made no step yet
	Nodes     []NodeRecord `json:"nodes,omitempty"`       // nodes that disturbed the job, by name
	Death     *Death       `json:"death,omitempty"`
	Back      *Back        `json:"back,omitempty"`
}

// Death is where training stood when the last generation ended that failed by itself.
type Death struct {
	Node      string `json:"node,omitempty"` // whose worker failed first
	Step      int64  `json:"step"`
	Rollbacks int    `json:"rollbacks"`           // in a row, without a step beyond Step
	WentBack  bool   `json:"went_back,omitempty"` // the next generation began from an older checkpoint
}

// Back is the decision that the next World begins from an older checkpoint.
type Back struct {
	From checkpoint.Number `json:"from"` // the newest checkpoint at that time
	To   checkpoint.Number `json:"to"`
	Why  string            `json:"why"`
}
