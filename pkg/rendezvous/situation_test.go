package rendezvous_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// situation is a snapshot with the evidence and the clock of one agent: all inputs of plan.Next.
type situation struct {
	*jobSnapshot
	ev verdict.Evidence
	m  plan.Observed

	ring int // members that watch each other
}

// given is a situation at noon: the phase was entered just now, and a generation that runs or ran
// did so for a minute.
func given(s *jobSnapshot, facts ...func(*situation)) *situation {
	x := &situation{jobSnapshot: s,
		ev: verdict.Evidence{Answers: map[membership.Incarnation]verdict.Answered{},
			Holds: map[string]map[string]time.Time{}, Absent: map[membership.Incarnation]time.Time{},
			OnTime: noon.Add(-time.Hour)}}
	x.m.PhaseSince, x.m.ChangedAt = noon, noon
	if w := s.World; w != nil {
		w.Rev = 20
		s.Fence, s.Rev = w.Generation, 50
		if w.Phase != rendezvous.Forming {
			x.m.RunningSince = noon.Add(-time.Minute)
		}
	}
	for _, f := range facts {
		f(x)
	}
	return x
}

func (x *situation) refs() []membership.Ref {
	if x.World == nil {
		return nil
	}
	return slices.Concat(x.World.Members, x.World.Leavers)
}

func (x *situation) view() verdict.View {
	return verdict.Judge(verdict.Records{Members: x.refs(), Ring: x.ring, Nodes: x.Nodes, Left: x.Left,
		Suspects: x.Suspects},
		x.ev, verdict.DefaultTimeouts(3*time.Second), noon)
}

func (x *situation) plan() plan.Step {
	return plan.Next(plan.Facts{Snapshot: &x.Snapshot, View: x.view(), Observed: x.m,
		Timeouts: plan.DefaultTimeouts, Now: noon})
}

type fact = func(*situation)

func (x *situation) answer(node string, kind membership.AnswerKind) {
	x.ev.Answers[ref(node).Incarnation] = verdict.Answered{Answer: membership.Answer{Kind: kind}, At: noon}
}

// doubted makes one watcher find node silent: a suspect.
func doubted(node string) fact {
	return func(x *situation) {
		by := "a"
		if node == by {
			by = "b"
		}
		x.Suspects = append(x.Suspects,
			membership.Suspicion{Node: node, By: by, Incarnation: ref(node).Incarnation,
				Watcher: ref(by).Incarnation, Sign: membership.Silent})
		x.ev.Holds[node] = map[string]time.Time{by: noon}
		x.answer(node, membership.NoAnswer)
		x.m.SuspectSince = noon
	}
}

// crashed makes the host of node refuse dials. The lease of node still lives.
func crashed(node string) fact {
	return func(x *situation) {
		doubted(node)(x)
		x.answer(node, membership.Refused)
		x.m.SuspectSince = time.Time{}
	}
}

// vanished is crashed with an expired lease.
func vanished(node string) fact {
	return func(x *situation) { cutOff(node, 0)(x); x.answer(node, membership.Refused) }
}

// cutOff makes node answer with an expired lease: it has been cut off from the store for since.
func cutOff(node string, since time.Duration) fact {
	return func(x *situation) {
		x.gone(node)
		x.ev.Absent[ref(node).Incarnation] = noon.Add(-since)
		x.answer(node, membership.Same)
	}
}

// isVictim makes another failed worker the reason of the failure.
func isVictim(x *situation) { x.Failure.Victim = true }
func hangs(x *situation)    { x.Failure.Hang = true }

func besides(rank int) fact {
	return func(x *situation) {
		x.Failure.Others = append(x.Failure.Others,
			rendezvous.CollateralEnd{Rank: rank, Code: 1, Victim: true})
	}
}

func failedThere(node string) fact {
	return func(x *situation) {
		a := x.ev.Answers[ref(node).Incarnation]
		a.Failed = true
		x.ev.Answers[ref(node).Incarnation] = a
	}
}

func endedThere(node string) fact {
	return func(x *situation) {
		a := x.ev.Answers[ref(node).Incarnation]
		a.Ended = true
		x.ev.Answers[ref(node).Incarnation] = a
	}
}

// wentAway makes node stop its workers, announce its departure and leave.
func wentAway(node string) fact {
	return func(x *situation) {
		x.gone(node)
		x.Left = append(x.Left, membership.Left{Node: node, Incarnation: ref(node).Incarnation})
	}
}

// bornAgain registers node as another incarnation.
func bornAgain(node string) fact {
	return func(x *situation) {
		x.gone(node)
		x.here(node)
		n := x.Node(node)
		n.Incarnation, n.Rev = membership.Incarnation("new-"+node), 30
	}
}

func leaving(nodes ...string) fact {
	return func(x *situation) {
		for _, n := range nodes {
			x.World.Leavers = append(x.World.Leavers, ref(n))
		}
	}
}

func ready(nodes ...string) fact {
	return func(x *situation) {
		for i, n := range nodes {
			x.Ready[n] = rendezvous.Ready{Incarnation: ref(n).Incarnation, Host: n,
				Ports: []int{100 + i, 200 + i}}
		}
	}
}

// ended sets the exit codes of the workers of node; -1: that one still runs.
func ended(node string, codes ...int) fact {
	return func(x *situation) {
		e := rendezvous.Exit{Incarnation: ref(node).Incarnation}
		for _, c := range codes {
			if c < 0 {
				e.Codes = append(e.Codes, nil)
			} else {
				e.Codes = append(e.Codes, new(c))
			}
		}
		x.Exits[node] = e
	}
}

func savedBy(nodes ...string) fact {
	return func(x *situation) {
		for _, n := range nodes {
			x.Exits[n] = saved(n)
		}
	}
}

// failure makes a worker end with code; it was reported ago.
func failure(node string, code int, ago time.Duration) fact {
	return func(x *situation) {
		x.Failure = &rendezvous.Failure{Node: node, Incarnation: ref(node).Incarnation,
			Rank: x.World.Rank(ref(node)), Code: code}
		x.m.FailedAt = noon.Add(-ago)
	}
}

func asksFor(np int) fact {
	return func(x *situation) { x.Wish.NP, x.Wish.Request, x.Wish.By, x.Wish.Rev = np, "r2", "scale", 40 }
}

// asksToRestart is the wish that the workers of a generation start again.
func asksToRestart(g schema.Generation) fact {
	return func(x *situation) {
		x.Wish.Restart, x.Wish.Request, x.Wish.By, x.Wish.Rev = g, "r2", "restart", 40
	}
}

// keepsUntil is the size that the job keeps until the nodes of the wish are here.
func keepsUntil(np int) fact { return func(x *situation) { x.Wish.Until = np } }

// ofSize is the wish that the world answers.
func ofSize(np int) fact { return func(x *situation) { x.World.NP = np } }

func asksToGo(nodes ...string) fact {
	return func(x *situation) {
		x.Wish.Drain, x.Wish.Request, x.Wish.By, x.Wish.Rev = nodes, "r2", "drain", 40
	}
}

func asksToStop(x *situation) {
	x.Wish.Stop, x.Wish.Request, x.Wish.By, x.Wish.Rev = x.Job.Attempt, "r2", "stop", 40
}

func newAttempt(x *situation) {
	x.Job.Attempt++
	for i := range x.Nodes {
		x.Nodes[i].Attempt = x.Job.Attempt
	}
}

func holding(why rendezvous.Why, cause rendezvous.Cause) fact {
	return func(x *situation) { x.hold(rendezvous.Hold{Why: why, Cause: cause}) }
}

func savingFor(cause rendezvous.Cause) fact {
	return func(x *situation) { x.hold(rendezvous.Hold{Why: rendezvous.Saving, Planned: true, Cause: cause}) }
}

func commit(number checkpoint.Number, holders ...string) fact {
	return func(x *situation) {
		x.Head = checkpoint.Head{Number: number, Manifest: checkpoint.Hash{byte(number)}, Rev: 15}
		for _, h := range holders {
			x.Head.Holders = append(x.Head.Holders, ref(h))
		}
	}
}

func has(node string, numbers ...checkpoint.Number) fact {
	return func(x *situation) { x.Held[node] = rendezvous.Held{Numbers: numbers, Rev: 16} }
}

// since sets how long the World has been in its phase.
func since(d time.Duration) fact { return func(x *situation) { x.m.PhaseSince = noon.Add(-d) } }
func ran(d time.Duration) fact   { return func(x *situation) { x.m.RunningSince = noon.Add(-d) } }
func call(d time.Duration) fact  { return func(x *situation) { x.m.LastCallSince = noon.Add(-d) } }
func doubtFor(d time.Duration) fact {
	return func(x *situation) { x.m.SuspectSince = noon.Add(-d) }
}

// watching: the members watch each other, and the first sign of a loss was seen d ago.
func watching(d time.Duration) fact {
	return func(x *situation) { x.ring, x.m.FirstSign = len(x.World.Members), noon.Add(-d) }
}

func answered(node string) fact { return func(x *situation) { x.answer(node, membership.Same) } }

func doing(node, what string) fact {
	return func(x *situation) { x.Doing = append(x.Doing, rendezvous.Activity{Node: node, Kind: what}) }
}

func ledger(l rendezvous.Ledger) fact { return func(x *situation) { x.World.Ledger = l } }

// restartsUsed sets how many of three restarts are used.
func restartsUsed(n int) fact { return ledger(rendezvous.Ledger{Used: n}) }

func generation(g schema.Generation) fact {
	return func(x *situation) { x.World.Generation, x.Fence = g, g }
}

func rule(change func(*rendezvous.Rules)) fact { return func(x *situation) { change(&x.Job.Rules) } }

// stepText is a step in one line.
func stepText(step plan.Step) string {
	var b strings.Builder
	list := func(word string, names []string) {
		if len(names) > 0 {
			b.WriteString("; " + word + " " + strings.Join(names, " "))
		}
	}
	quarantine := func(qs []rendezvous.Quarantine) {
		var names []string
		for _, x := range qs {
			names = append(names, fmt.Sprintf("%s until %d", x.Node, x.Until))
		}
		list("quarantine", names)
	}
	failure := func(f *plan.ReportedFailure) {
		switch {
		case f == nil:
		case f.Collateral:
			b.WriteString("; the failure is collateral")
		case f.Spent:
			b.WriteString("; the failure spent a restart")
		default:
			b.WriteString("; the failure spent nothing")
		}
	}
	switch s := step.(type) {
	case plan.Nothing:
		b.WriteString("nothing")
		if s.Until.After(noon) {
			fmt.Fprintf(&b, " for %s", s.Until.Sub(noon))
		}
	case plan.Propose:
		w := s.World
		fmt.Fprintf(&b, "propose %d (%s):", w.Generation, w.Cause)
		for _, m := range w.Members {
			b.WriteString(" " + m.Node)
			if strings.HasPrefix(string(m.Incarnation), "new-") {
				b.WriteString("'")
			}
		}
		if w.Resume != nil {
			fmt.Fprintf(&b, " from %d", w.Resume.Number)
		}
		list("leaving", nodesOf(w.Leavers))
		list("evicts", nodesSeen(s.Evicted))
		list("without", nodesSeen(s.Dropped))
		list("lost", nodesSeen(s.Lost))
		quarantine(w.Quarantine)
		failure(s.Failure)
	case plan.Hold:
		b.WriteString("hold (" + string(s.Hold.Why) + ")")
		if s.Hold.Planned {
			b.WriteString(" planned, " + s.Hold.Reason)
		}
		if s.Hold.Backoff > 0 {
			fmt.Fprintf(&b, " %s", time.Duration(s.Hold.Backoff))
		}
		list("lost", nodesSeen(s.Lost))
		quarantine(s.Quarantine)
		failure(s.Failure)
	case plan.ReportLost:
		b.WriteString("tell")
		list("lost", nodesSeen(s.Lost))
	case plan.Run:
		fmt.Fprintf(&b, "run, master %s:%d and %d", s.Master.Host, s.Master.Port, s.Master.Store)
	case plan.Finish:
		b.WriteString("finishing: " + s.Node)
	case plan.End:
		fmt.Fprintf(&b, "%s %d (%s)", s.Phase, s.Outcome.Code, s.Outcome.Source)
		list("lost", nodesSeen(s.Lost))
		failure(s.Failure)
	default:
		fmt.Fprintf(&b, "%T", step)
	}
	return b.String()
}

func nodesOf(refs []membership.Ref) (names []string) {
	for _, r := range refs {
		names = append(names, r.Node)
	}
	return names
}

func nodesSeen(seen []verdict.Member) (names []string) {
	for _, s := range seen {
		names = append(names, s.Node)
	}
	return names
}

func quarantine(node string, until schema.Generation) fact {
	return func(x *situation) {
		x.World.Quarantine = append(x.World.Quarantine,
			rendezvous.Quarantine{Node: node, Until: until, Times: 1})
	}
}

type incarnation = membership.Incarnation
