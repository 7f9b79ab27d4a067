package overview

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/goodput"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
)

// Timeline is what each node did since the oldest event that is kept.
type Timeline struct {
	From        Millis       `json:"from"`
	To          Millis       `json:"to"` // 0: now
	Rows        []Row        `json:"rows"`
	Generations []Generation `json:"generations"`
	Marks       []Mark       `json:"marks"`
	Commits     []Commit     `json:"commits"`
}

// Row is one node, or several nodes of a large job that did the same.
type Row struct {
	Nodes []string `json:"nodes"`
	State string   `json:"state"` // as in status; "" for nodes that status does not list
	Bars  []Bar    `json:"bars"`
}

// Bar is a time in which a node was in one phase. Between bars it was not there.
type Bar struct {
	From       Millis            `json:"from"`
	To         Millis            `json:"to"` // 0: it goes on
	Phase      Phase             `json:"phase"`
	Generation schema.Generation `json:"generation"`
}

// Phase is what a node does.
type Phase string

const (
	Training    Phase = "training"
	Redone      Phase = "redone" // it trained, and the steps were lost and made again
	Hung        Phase = "hung"
	Starting    Phase = "starting" // at the barrier
	Saving      Phase = "saving"   // before a planned change
	Backoff     Phase = "backoff"  // after a failure
	Waiting     Phase = "waiting"  // for nodes
	Spare       Phase = "spare"
	Suspected   Phase = "suspect"
	Quarantined Phase = "quarantined"
	away        Phase = ""
)

// Generation is one world: when it was proposed, why, and how it went.
type Generation struct {
	Number    schema.Generation  `json:"number"`
	Proposed  Millis             `json:"proposed"`
	Running   Millis             `json:"running"` // 0: it never ran, or does not run yet
	Ended     Millis             `json:"ended"`   // 0: it is the newest
	Cause     string             `json:"cause"`
	Text      string             `json:"text"` // the cause in one sentence
	Nodes     int                `json:"nodes"`
	Size      int                `json:"size"`
	From      *int64             `json:"from_step"`
	Reached   *int64             `json:"to_step"`
	Lost      int64              `json:"lost_steps"`
	IdleMS    *int64             `json:"idle_ms"` // without training before it ran
	Waterfall *rendezvous.Timing `json:"waterfall"`
}

// Mark is a moment that the timeline points out.
type Mark struct {
	At         Millis            `json:"at"`
	Kind       history.Kind      `json:"kind"`
	Sign       Sign              `json:"sign"`
	Node       string            `json:"node"`
	Generation schema.Generation `json:"generation"`
	Text       string            `json:"text"`
}

// Sign is the shape of a mark.
type Sign string

const (
	SignLoss       Sign = "loss"
	SignSuspicion  Sign = "suspicion"
	SignFailure    Sign = "failure"
	SignHang       Sign = "hang"
	SignScale      Sign = "scale"
	SignRefusal    Sign = "refusal"
	SignRollback   Sign = "rollback"
	SignQuarantine Sign = "quarantine"
	SignJoin       Sign = "join"
	SignLeave      Sign = "leave"
	SignEnd        Sign = "end"
)

// Commit is a commit on the timeline.
type Commit struct {
	At     Millis `json:"at"`
	Number int64  `json:"number"`
	Step   *int64 `json:"step"`
	Copies int64  `json:"copies"`
}

// timelineOf derives the timeline of a job. st is its status at now: the ends of the bars agree with
// the nodes of st.
func timelineOf(s *rendezvous.Snapshot, st status.Status, used goodput.Report, now time.Time) Timeline {
	w := newWalk()
	for i := range s.Events {
		w.take(&s.Events[i])
	}
	t := Timeline{Generations: w.generations, Marks: w.marks, Commits: w.commits, From: millis(s.Job.Time)}
	if len(s.Events) > 0 {
		t.From = millis(s.Events[0].Time)
	}
	w.agree(st, millis(now))
	if st.Ended() {
		t.To = max(millis(st.Since.Time), t.From+1)
		w.close(t.To)
	}
	for _, g := range used.Generations {
		w.recolour(schema.Generation(g.Generation), millis(g.HungSince), Hung)
		w.recolour(schema.Generation(g.Generation), millis(g.RedoneSince), Redone)
	}
	t.Rows = w.rows(st, millis(now))
	for i := range t.Generations {
		t.Generations[i].account(used)
	}
	return t
}

// account adds the steps of a generation.
func (g *Generation) account(used goodput.Report) {
	i := slices.IndexFunc(used.Generations,
		func(u goodput.Generation) bool { return u.Generation == int64(g.Number) })
	if i >= 0 {
		u := used.Generations[i]
		g.From, g.Reached, g.Lost = u.From, u.To, u.Lost
	}
}

// signOf returns the shape of the mark of an event; "": it has none.
func signOf(e *history.Event) Sign {
	switch e.Kind {
	case history.NodeLost:
		return SignLoss
	case history.NodeSuspected:
		return SignSuspicion
	case history.WorkerFailed:
		if history.Field[bool](e, "hang") {
			return SignHang
		}
		return SignFailure
	case history.LossNaN:
		return SignFailure
	case history.WishChanged:
		return SignScale
	case history.Refused, history.Damaged:
		return SignRefusal
	case history.Bad, history.Distrusted:
		return SignRollback
	case history.Quarantined:
		return SignQuarantine
	case history.NodeJoined:
		return SignJoin
	case history.NodeLeft:
		return SignLeave
	case history.JobDone, history.JobFailed, history.JobStopped:
		return SignEnd
	}
	return ""
}
