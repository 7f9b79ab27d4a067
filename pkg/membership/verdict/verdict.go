// Package verdict decides whether a node is alive, from the records of the store and the evidence of one
// agent. It is pure.
package verdict

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// State is the verdict on a member.
type State int

const (
	Alive   State = iota
	Suspect       // a node suspects it, and no second one has confirmed it
	Absent        // not registered; it may register again
	Gone          // dead, replaced or left: no World is planned with it
)

func (s State) String() string { return [...]string{"alive", "suspect", "absent", "gone"}[s] }

// Member is one member of the world, judged.
type Member struct {
	membership.Ref
	State      State
	Rev        int64  // ModRevision of the key of its name, 0 if there is none
	Registered bool   // that key is of this incarnation
	Why        string // "agent gone", "silent", "lease expired", "left", "replaced"
	// Why for scripts: agent-gone, silent, lease-expired, left, replaced
	Reason       string
	By           []string  // the nodes that confirmed it
	Since        time.Time // first sign, by the judge's clock
	PastWindow   bool      // Absent: past the re-registration window
	PastCutLimit bool      // Absent: past the store-cut limit
	WorkerFailed bool      // Absent, and it answers that its worker failed
	WorkersEnded bool      // Absent, and it answers that its workers ended
	// Alive, but one of its watchers is not alive, and it has not answered the judge lately
	Unasked bool
	After   time.Duration // from the first sign to the verdict
	// ModRevision of the judge's suspicion, which must stay unanswered; 0: none
	Record  int64
	Removed bool                     // it left, or its next incarnation replaced it
	unheard bool                     // a watcher that suspects it was not asked yet whether it still does
	accused []membership.Incarnation // the registered watchers that suspect it
}

// View has the verdicts on the members of a World, and the other registered nodes. Judge makes it.
type View struct {
	Members []Member          // in the order of Records.Members
	Others  []membership.Node // registered incarnations that are not among Members
	Ask     []membership.Ref  // the nodes that the judge must dial before it can decide

	at map[membership.Incarnation]int // index in Members
}

// Find returns the member r, or nil.
func (v View) Find(r membership.Ref) *Member {
	if i, ok := v.at[r.Incarnation]; ok && v.Members[i].Same(r) {
		return &v.Members[i]
	}
	return nil
}

// Answered is an answer and when it came.
type Answered struct {
	membership.Answer
	At time.Time
}

// Unanswered is a suspicion that had no answer for AnswerLimit, up to At.
type Unanswered struct {
	Rev int64 // of the record
	At  time.Time
}

// Evidence is what one agent saw itself, by its own clock. Its times are monotonic and local. They
// delay verdicts, and never cause one alone.
type Evidence struct {
	Self    membership.Incarnation               // the judge
	Answers map[membership.Incarnation]Answered  // answers to the judge's dials
	Holds   map[string]map[string]time.Time      // suspected node → watchers that lately confirmed it
	Absent  map[membership.Incarnation]time.Time // since when a key is known to be absent
	// suspicions of the judge that had no answer in the store, while the store answered the judge
	// promptly
	Unanswered map[membership.Incarnation]Unanswered
	// since when every renewal of the judge's lease was on time; zero: the last one was not
	OnTime   time.Time
	Void     time.Time // before this time silence and absent keys do not count
	Isolated bool      // no peer answers, so the judge may be cut off itself
}

// Timeouts are the times of the verdicts (docs/PROTOCOL.md, section 4).
type Timeouts struct {
	Window   time.Duration // in which an absent node may register again
	Fresh    time.Duration // for how long an answer counts
	TTL      time.Duration // duration of a lease
	CutLimit time.Duration // after which a member that is cut from the store alone is dropped
}

// DefaultTimeouts are those of docs/PROTOCOL.md.
func DefaultTimeouts(ttl time.Duration) Timeouts {
	return Timeouts{Window: 10 * time.Second, Fresh: 2 * time.Second, TTL: ttl, CutLimit: time.Minute}
}

// Records are what the store says of the members of a world and of the registered nodes.
type Records struct {
	Members  []membership.Ref
	Ring     int // the first so many of Members watch each other
	Nodes    []membership.Node
	Left     []membership.Left
	Suspects []membership.Suspicion
}

// Judge returns the verdict on each member. It is the only rule of which node is gone. Plans and
// causes must use the same one: with two different verdicts the same World would be proposed again
// and again.
func Judge(r Records, ev Evidence, l Timeouts, now time.Time) View {
	v := View{Members: make([]Member, 0, len(r.Members)),
		at: make(map[membership.Incarnation]int, len(r.Members))}
	f := facts{nodes: make(map[string]*membership.Node, len(r.Nodes)), left: map[string]*membership.Left{},
		accused: map[string][]*membership.Suspicion{}, ev: ev, l: l, now: now}
	for i := range r.Nodes {
		f.nodes[r.Nodes[i].Node] = &r.Nodes[i]
	}
	for i := range r.Left {
		f.left[r.Left[i].Node] = &r.Left[i]
	}
	for i := range r.Suspects {
		f.accused[r.Suspects[i].Node] = append(f.accused[r.Suspects[i].Node], &r.Suspects[i])
	}
	for i, m := range r.Members {
		v.at[m.Incarnation] = i
		s := f.judge(m)
		if (s.State == Suspect || s.State == Absent) && (s.unheard || !f.fresh(m)) {
			v.Ask = append(v.Ask, m)
		}
		v.Members = append(v.Members, s)
	}
	f.askWatched(&v, r.Ring)
	for _, n := range r.Nodes {
		if _, taken := v.at[n.Incarnation]; !taken {
			v.Others = append(v.Others, n)
		}
	}
	return v
}

// facts are the records of the store, by node, and the evidence of the judge.
type facts struct {
	ev      Evidence
	l       Timeouts
	now     time.Time
	nodes   map[string]*membership.Node
	left    map[string]*membership.Left
	accused map[string][]*membership.Suspicion
}

// fresh reports whether the newest answer of m is recent enough to count.
func (f *facts) fresh(m membership.Ref) bool {
	a, ok := f.ev.Answers[m.Incarnation]
	return ok && f.now.Sub(a.At) < f.l.Fresh
}

// judge returns the verdict on a member.
func (f *facts) judge(m membership.Ref) Member {
	ev, now := &f.ev, f.now
	s := Member{Ref: m}
	n, present := f.nodes[m.Node]
	if present {
		s.Rev, s.Registered = n.Rev, n.Incarnation == m.Incarnation
	}
	// This holds even if it is registered again: a registration that was sent before it left may
	// arrive late.
	if x := f.left[m.Node]; x != nil && x.Incarnation == m.Incarnation {
		s.Removed = true
		return s.gone("left", "left")
	}
	if present && !s.Registered {
		s.Removed = true
		return s.gone("agent-gone", "agent gone") // its next incarnation replaced it
	}

	var a membership.Answer
	answered := f.fresh(m)
	if answered {
		a = ev.Answers[m.Incarnation].Answer
	}
	c := f.accuse(m)
	s.accused, s.unheard = c.watchers, c.unheard
	absentSince, absent := ev.Absent[m.Incarnation]
	absent = absent && !present
	switch {
	case present && len(c.watchers) == 0:
		return s // alive: no node suspects it
	case answered && a.Kind == membership.Same && present:
		return s // it answers, so the suspicions do not count
	case answered && (a.Kind == membership.Other || a.Kind == membership.Stranger):
		return s.gone("agent-gone", "agent gone")
	case answered && a.Kind == membership.Refused:
		return s.gone("agent-gone", "agent gone", c.silentBy...)
	}
	if present {
		s.State, s.Why = Suspect, c.why
	} else {
		s.State, s.Why, s.Since = Absent, "lease expired", absentSince
	}
	void := now.Before(ev.Void)
	if absent && answered && a.Kind == membership.Same {
		age := now.Sub(absentSince)
		s.PastWindow = !void && age >= f.l.Window
		s.PastCutLimit = !void && age >= f.l.CutLimit
		s.WorkerFailed, s.WorkersEnded = !void && a.Failed, a.Ended
		return s
	}
	quiet := answered && a.Kind == membership.NoAnswer
	if !quiet || void {
		return s
	}
	return f.judgeSilence(s, c)
}

// judgeSilence decides about a member that does not answer the judge, which needs a second witness.
// If no member answers the judge, the judge leaves the verdict to members that are still
// registered: a healthy member may be cut from the store while the judge is cut from all peers.
func (f *facts) judgeSilence(s Member, c accusation) Member {
	ev, l, now := &f.ev, &f.l, f.now
	absent := s.State == Absent && !s.Since.IsZero() // for all that the judge knows
	if ev.Isolated && absent && len(f.nodes) > 1 {
		return s
	}
	onTime := absent && !ev.OnTime.IsZero() && s.Since.Sub(ev.OnTime) >= l.TTL
	switch {
	case onTime:
		// The store is the second witness: it renewed the judge's lease on time all along, and not
		// the member's.
		return s.gone("lease-expired", "silent, lease expired", "etcd")
	case absent && !ev.OnTime.IsZero() && now.Sub(s.Since) >= l.Window && now.Sub(ev.OnTime) >= l.Window:
		// The judge's renewals were late when the member's key expired, so the judge may be cut off
		// itself. But since then the store has renewed the judge's lease for a whole window, and
		// has not seen the member.
		return s.gone("lease-expired", "silent, lease expired", "etcd")
	case len(c.silentBy) >= 2 && !ev.Isolated:
		return s.gone("silent", c.why, c.silentBy...)
	case absent && now.Sub(s.Since) >= l.Window && !ev.Isolated:
		return s.gone("silent", c.why, c.silentBy...)
	case f.unanswered(s, c):
		s.Record = c.own
		return s.gone("silent", c.why, append(c.silentBy, "etcd")...)
	}
	return s
}

// unanswered reports whether the store is the second witness before the lease of s ends. This is
// for two registered nodes, where no second watcher can suspect s. The member did not answer the
// judge, nor the suspicion that it can read in the store, while the store answered the judge
// promptly.
func (f *facts) unanswered(s Member, c accusation) bool {
	x, known := f.ev.Unanswered[s.Incarnation]
	return s.Registered && len(f.nodes) == 2 && !f.ev.Isolated && !f.ev.OnTime.IsZero() &&
		known && c.own != 0 && x.Rev == c.own && f.now.Sub(x.At) < f.l.Fresh
}

// accusation is what the suspicions in the store say about one member.
type accusation struct {
	watchers []membership.Incarnation // registered watchers that suspect it
	silentBy []string                 // watchers that confirmed it when asked
	unheard  bool                     // a watcher was not asked yet
	// revision of the judge's suspicion, if it is one of silence and unanswered; 0: none
	own int64
	why string
}

// accuse gathers the suspicions about m whose watchers are registered.
func (f *facts) accuse(m membership.Ref) accusation {
	c, never := accusation{why: "silent"}, true
	for _, x := range f.accused[m.Node] {
		if x.Incarnation != m.Incarnation {
			continue
		}
		if w, ok := f.nodes[x.By]; !ok || w.Incarnation != x.Watcher {
			continue // its watcher is gone, so no node can confirm it
		}
		never = never && x.Never
		c.watchers = append(c.watchers, x.Watcher)
		if x.Watcher == f.ev.Self && x.Sign == membership.Silent && !x.Answered {
			c.own = x.Rev
		}
		if at, ok := f.ev.Holds[m.Node][x.By]; ok && f.now.Sub(at) < f.l.Fresh {
			c.silentBy = append(c.silentBy, x.By)
		} else {
			c.unheard = true
		}
	}
	if len(c.watchers) > 0 && never {
		c.why = "never reached at " + m.Address
	}
	return c
}

// gone returns s with the verdict Gone.
func (s Member) gone(reason, why string, by ...string) Member {
	s.State, s.Reason, s.Why, s.By = Gone, reason, why, by
	return s
}

// Doubt is one sign against a member: By suspects About. If About is not registered, By is About.
type Doubt struct{ By, About membership.Incarnation }

// Doubts returns the signs because of which s is not alive. It does so for members that are gone,
// too.
func (s Member) Doubts() (all []Doubt) {
	if s.State == Alive {
		return nil // it answers, so the signs do not count
	}
	if !s.Registered {
		all = append(all, Doubt{s.Incarnation, s.Incarnation})
	}
	for _, by := range s.accused {
		all = append(all, Doubt{by, s.Incarnation})
	}
	return all
}

// ManyInDoubt reports whether so many of n members are in doubt at once that etcd, the network or
// the judge is the likelier cause. It does not count signs that a single node explains: a node that
// is cut off suspects the nodes that it watches, while its own watchers suspect it. No other node
// has two watchers against it then, so silence endangers none.
func ManyInDoubt(v View, n int) bool {
	var doubts []Doubt
	count := 0
	for _, m := range v.Members {
		if m.State == Suspect || m.State == Absent {
			count++
			doubts = append(doubts, m.Doubts()...)
		}
	}
	return count >= max(2, (3*n+9)/10) && !oneNode(doubts)
}

// oneNode reports whether a single node is the watcher or the suspect in each doubt.
func oneNode(doubts []Doubt) bool {
	for _, x := range []membership.Incarnation{doubts[0].By, doubts[0].About} {
		if !slices.ContainsFunc(doubts, func(d Doubt) bool { return d.By != x && d.About != x }) {
			return true
		}
	}
	return false
}
