package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const sec = time.Second

// judgeNow is the moment of every verdict below.
var judgeNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// trial is what is known of the members a, b, c, d of a world when c is judged: all of them are registered
// and nobody says anything, until a row says otherwise.
type trial struct {
	members  []Ref
	nodes    []Node
	left     []Left
	suspects []Suspicion
	ev       Evidence
}

func member(node string) Ref {
	return Ref{Node: node, Incarnation: Incarnation(node + "1"), Address: node + ":1"}
}

// given is a trial with these facts.
func given(facts ...func(*trial)) *trial {
	x := &trial{ev: Evidence{Answers: map[Incarnation]Answered{}, Holds: map[string]map[string]time.Time{},
		Absent: map[Incarnation]time.Time{}, OnTime: judgeNow.Add(-time.Hour)}}
	for _, n := range []string{"a", "b", "c", "d"} {
		x.members = append(x.members, member(n))
		x.nodes = append(x.nodes, Node{Ref: member(n), Rev: 7})
	}
	for _, f := range facts {
		f(x)
	}
	return x
}

func (x *trial) verdict() View {
	return Judge(x.members, x.nodes, x.left, x.suspects, x.ev, DefaultLimits(3*sec, time.Minute), judgeNow)
}

// accuses: a watcher's record about c, that it said ago that it still holds.
func accuses(by string, ago time.Duration) func(*trial) {
	return func(x *trial) {
		x.suspects = append(x.suspects, Suspicion{Node: "c", By: by, Incarnation: "c1", Watcher: Incarnation(by + "1"), Sign: Silent})
		if x.ev.Holds["c"] == nil {
			x.ev.Holds["c"] = map[string]time.Time{}
		}
		x.ev.Holds["c"][by] = judgeNow.Add(-ago)
	}
}

// wrote: the record is there, and its watcher was not asked yet.
func wrote(by string) func(*trial) {
	return func(x *trial) { accuses(by, 0)(x); delete(x.ev.Holds["c"], by) }
}

// noKey: the key of c is gone since.
func noKey(ago time.Duration) func(*trial) {
	return func(x *trial) {
		x.nodes = slices.DeleteFunc(x.nodes, func(n Node) bool { return n.Node == "c" })
		x.ev.Absent["c1"] = judgeNow.Add(-ago)
	}
}

// dialled: what a dial of c brought, ago.
func dialled(kind AnswerKind, ago time.Duration) func(*trial) {
	return func(x *trial) { x.ev.Answers["c1"] = Answered{Answer{Kind: kind}, judgeNow.Add(-ago)} }
}

// says: c answers, and that of its workers.
func says(failed, ended bool) func(*trial) {
	return func(x *trial) {
		x.ev.Answers["c1"] = Answered{Answer{Kind: Same, Incarnation: "c1", Failed: failed, Ended: ended}, judgeNow}
	}
}

// nextLife: the key of node names another incarnation now.
func nextLife(node string) func(*trial) {
	return func(x *trial) {
		for i := range x.nodes {
			if x.nodes[i].Node == node {
				x.nodes[i].Incarnation, x.nodes[i].Rev = Incarnation(node+"2"), 9
			}
		}
	}
}

func hasLeft(inc Incarnation) func(*trial) {
	return func(x *trial) { x.left = append(x.left, Left{Node: "c", Incarnation: inc, Reason: Terminated}) }
}

// renewing: my renewals were on time since.
func renewing(ago time.Duration) func(*trial) {
	return func(x *trial) { x.ev.OnTime = judgeNow.Add(-ago) }
}

func late(x *trial)     { x.ev.OnTime = time.Time{} }
func isolated(x *trial) { x.ev.Isolated = true }
func alone(x *trial)    { x.nodes = x.nodes[:1] }
func void(x *trial)     { x.ev.Void = judgeNow.Add(sec) }

// TestJudge is the table of docs/PROTOCOL.md, section 4, row by row.
func TestJudge(t *testing.T) {
	tell := func(s *Seen, asked bool) string {
		text := s.State.String()
		if s.State == Gone {
			text += " (" + s.Reason + ")"
			if len(s.By) > 0 {
				text += fmt.Sprintf(" by %v", s.By)
			}
		}
		for _, flag := range []struct {
			on   bool
			name string
		}{{s.Waited, "waited"}, {s.Cut, "cut"}, {s.Failed, "failed"}, {s.Ended, "ended"}, {asked, "ask"}} {
			if flag.on {
				text += ", " + flag.name
			}
		}
		return text
	}
	for _, section := range []struct {
		row  string
		rows []judged
	}{
		{"key present, peers get answers from that incarnation: alive", []judged{
			{"nobody says anything", given(), "alive"},
			{"it answers", given(dialled(Same, 0)), "alive"},
			{"two accuse it, and it answers me: the accusation is void", given(accuses("a", 0), accuses("b", 0), dialled(Same, 0)), "alive"},
			{"no answer to me, and nobody accuses it", given(dialled(NoAnswer, 0)), "alive"},
		}},
		{"key absent, node answers as that incarnation: not gone", []judged{
			{"just now", given(noKey(0), dialled(Same, 0)), "absent"},
			{"before the window has passed", given(noKey(10*sec-1), dialled(Same, 0)), "absent"},
			{"past the window it is dropped with the next change", given(noKey(10*sec), dialled(Same, 0)), "absent, waited"},
			{"past the cut limit it is a cause", given(noKey(time.Minute), dialled(Same, 0)), "absent, waited, cut"},
			{"its worker failed: it is a cause", given(noKey(sec), says(true, false)), "absent, failed"},
			{"its workers ended", given(noKey(sec), says(true, true)), "absent, failed, ended"},
			{"accused by two, but it answers", given(noKey(sec), accuses("a", 0), accuses("b", 0), dialled(Same, 0)), "absent"},
			{"the store was away: the window begins anew", given(noKey(20*sec), dialled(Same, 0), void), "absent"},
			{"the store was away: so does the cut limit", given(noKey(2*time.Minute), dialled(Same, 0), void), "absent"},
			{"nobody has asked it yet", given(noKey(time.Hour)), "absent, ask"},
		}},
		{"dial refused by a host that answers, or answered by a stranger: gone", []judged{
			{"refused, one accuses it", given(accuses("b", 0), dialled(Refused, 0)), "gone (agent-gone) by [b]"},
			{"refused, its watcher has not said yet whether it holds", given(wrote("b"), dialled(Refused, 0)), "gone (agent-gone)"},
			{"refused, key absent", given(noKey(0), dialled(Refused, 0)), "gone (agent-gone)"},
			{"refused counts also when silence does not", given(accuses("b", 0), dialled(Refused, 0), void, isolated, late), "gone (agent-gone) by [b]"},
			{"a stranger answers", given(accuses("b", 0), dialled(Stranger, 0)), "gone (agent-gone)"},
			{"refused, but two seconds ago", given(accuses("b", 0), dialled(Refused, 2*sec)), "suspect, ask"},
			{"refused, and nobody wrote of it", given(dialled(Refused, 0)), "alive"},
		}},
		{"silence, confirmed by a second node: gone", []judged{
			{"two watchers hold it", given(accuses("a", 0), accuses("b", 0), dialled(NoAnswer, 0)), "gone (silent) by [a b]"},
			{"one watcher holds it", given(accuses("b", 0), dialled(NoAnswer, 0)), "suspect"},
			{"two watchers, not dialled by me", given(accuses("a", 0), accuses("b", 0)), "suspect, ask"},
			{"two watchers, my dial is old", given(accuses("a", 0), accuses("b", 0), dialled(NoAnswer, 2*sec)), "suspect, ask"},
			{"C17: the second record's watcher was not asked", given(accuses("a", 0), wrote("b"), dialled(NoAnswer, 0)), "suspect, ask"},
			{"C17: it was asked two seconds ago", given(accuses("a", 0), accuses("b", 2*sec), dialled(NoAnswer, 0)), "suspect, ask"},
			{"the second watcher lives another life", given(accuses("a", 0), accuses("b", 0), nextLife("b"), dialled(NoAnswer, 0)), "suspect"},
			{"the only watcher lives another life", given(accuses("b", 0), nextLife("b"), dialled(NoAnswer, 0)), "alive"},
			{"records about another life of it", given(accuses("a", 0), accuses("b", 0), dialled(NoAnswer, 0), func(x *trial) {
				x.suspects[0].Incarnation, x.suspects[1].Incarnation = "c0", "c0"
			}), "alive"},
			{"the same watcher twice is one", given(accuses("b", 0), func(x *trial) { x.ev.Holds["c"]["d"] = judgeNow }, dialled(NoAnswer, 0)), "suspect"},
		}},
		{"silence, and its lease ran out while my renewals were on time: gone, etcd is the witness", []judged{
			{"on time for a whole lease before", given(noKey(0), dialled(NoAnswer, 0), renewing(3*sec)), "gone (lease-expired) by [etcd]"},
			{"on time for less than a lease before", given(noKey(sec), dialled(NoAnswer, 0), renewing(4*sec-1)), "absent"},
			{"mine were late: etcd was away", given(noKey(sec), dialled(NoAnswer, 0), late), "absent"},
			{"the store was away: void", given(noKey(sec), dialled(NoAnswer, 0), void), "absent"},
			{"not dialled", given(noKey(sec)), "absent, ask"},
			{"its key is there", given(accuses("b", 0), dialled(NoAnswer, 0)), "suspect"},
		}},
		{"silence and key absent for the window: gone", []judged{
			{"for the window", given(noKey(10*sec), dialled(NoAnswer, 0), late), "gone (silent)"},
			{"not for so long", given(noKey(10*sec-1), dialled(NoAnswer, 0), late), "absent"},
			{"the store was away", given(noKey(time.Minute), dialled(NoAnswer, 0), late, void), "absent"},
		}},
		{"left names this incarnation: gone, at once and without a witness", []judged{
			{"key gone", given(noKey(0), hasLeft("c1")), "gone (left)"},
			{"its key is there again: a late registration", given(hasLeft("c1")), "gone (left)"},
			{"it even answers", given(hasLeft("c1"), dialled(Same, 0)), "gone (left)"},
			{"void and isolated", given(noKey(0), hasLeft("c1"), void, isolated, late), "gone (left)"},
			{"an earlier life of it left", given(hasLeft("c0")), "alive"},
		}},
		{"node answers, or its key names, another incarnation: gone", []judged{
			{"its key names another", given(nextLife("c")), "gone (agent-gone)"},
			{"its key names another, and somebody answers as this one", given(nextLife("c"), dialled(Same, 0)), "gone (agent-gone)"},
			{"it answers as another, key absent", given(noKey(0), dialled(Other, 0)), "gone (agent-gone)"},
			{"C7: it answers as another while its old key lives", given(accuses("b", 0), dialled(Other, 0)), "gone (agent-gone)"},
		}},
		{"no peer at all answers me: silence drops nobody, a lease that ran out does", []judged{
			{"two hold it", given(accuses("a", 0), accuses("b", 0), dialled(NoAnswer, 0), isolated), "suspect"},
			{"key absent for the window", given(noKey(time.Minute), dialled(NoAnswer, 0), isolated, late), "absent"},
			{"its lease ran out, mine was on time, and nobody else is registered", given(noKey(sec), dialled(NoAnswer, 0), isolated, alone), "gone (lease-expired) by [etcd]"},
			{"its lease ran out, mine was on time, and others may reach it", given(noKey(sec), dialled(NoAnswer, 0), isolated), "absent"},
		}},
		{"many suspected at once, or the store was away: silence counts for nothing for a window", []judged{
			{"two hold it", given(accuses("a", 0), accuses("b", 0), dialled(NoAnswer, 0), void), "suspect"},
			{"the window has passed", given(accuses("a", 0), accuses("b", 0), dialled(NoAnswer, 0), func(x *trial) { x.ev.Void = judgeNow }), "gone (silent) by [a b]"},
			{"a refused dial still counts", given(accuses("a", 0), dialled(Refused, 0), void), "gone (agent-gone) by [a]"},
		}},
	} {
		t.Run(section.row, func(t *testing.T) {
			for _, c := range section.rows {
				v := c.trial.verdict()
				ref := member("c")
				if got := tell(v.Find(ref), slices.ContainsFunc(v.Ask, ref.Same)); got != c.want {
					t.Errorf("%s: %s, want %s", c.name, got, c.want)
				}
				for _, other := range []string{"a", "b", "d"} {
					if s := v.Find(member(other)); s.State != Alive && s.Mine {
						t.Errorf("%s: nobody doubts %s, and it is %s", c.name, other, s.State)
					}
				}
			}
		})
	}
}

type judged struct {
	name  string
	trial *trial
	want  string
}

func TestViewIsWhole(t *testing.T) {
	x := given(noKey(0), dialled(Same, 0), nextLife("d"))
	x.members = append(x.members, Ref{Node: "e", Incarnation: "e0"}) // a leaver, long gone
	x.nodes = append(x.nodes, Node{Ref: member("s"), Rev: 8})
	v := x.verdict()
	var order, others string
	for _, m := range v.Members {
		order += m.Node
	}
	for _, n := range v.Others {
		others += string(n.Incarnation)
	}
	if order != "abcde" || others != "d2s1" {
		t.Errorf("members %s in the order that was given, others %s: want abcde and d2s1", order, others)
	}
	if s := v.Find(member("d")); s.Rev != 9 || s.Mine {
		t.Errorf("d lives again: rev %d, mine %v: want the revision of its new key, not its own", s.Rev, s.Mine)
	}
	if s := v.Find(member("c")); s.Rev != 0 || s.Mine {
		t.Errorf("the key of c is absent: rev %d, mine %v", s.Rev, s.Mine)
	}
	if v.Find(Ref{Node: "a", Incarnation: "a0"}) != nil {
		t.Error("an earlier life of a is found")
	}
}

func TestCrowd(t *testing.T) {
	for _, c := range []struct {
		n, doubt int
		want     bool
	}{
		{2, 1, false}, {2, 2, true}, {3, 1, false}, {3, 2, true}, {6, 1, false}, {6, 2, true},
		{7, 2, false}, {7, 3, true}, {10, 2, false}, {10, 3, true}, {1000, 299, false}, {1000, 300, true},
	} {
		for _, state := range []State{Suspect, Absent} {
			v := View{Members: make([]Seen, c.n)}
			for i := range c.doubt {
				v.Members[i].State = state
			}
			if got := Crowd(v, c.n); got != c.want {
				t.Errorf("%d of %d %s at once: %v, want %v", c.doubt, c.n, state, got, c.want)
			}
		}
	}
	if Crowd(View{Members: []Seen{{State: Gone}, {State: Gone}, {State: Gone}}}, 3) {
		t.Error("who is gone for certain is no crowd in doubt")
	}
}

// What may never be, whatever is known.
func TestJudgeNeverDropsWhoAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := given()
		ago := rapid.SampledFrom([]time.Duration{0, sec, 2*sec - 1, 2 * sec, 3 * sec, 10 * sec, time.Minute, time.Hour})
		pick := func(name string, f func(*trial)) {
			if rapid.Bool().Draw(t, name) {
				f(x)
			}
		}
		pick("a accuses", accuses("a", ago.Draw(t, "a said")))
		pick("b accuses", accuses("b", ago.Draw(t, "b said")))
		pick("a lives again", nextLife("a"))
		pick("no key", noKey(ago.Draw(t, "absent")))
		pick("another key", nextLife("c"))
		pick("left", hasLeft(rapid.SampledFrom([]Incarnation{"c0", "c1"}).Draw(t, "who left")))
		pick("dialled", dialled(rapid.SampledFrom([]AnswerKind{NoAnswer, Same, Other, Stranger, Refused}).Draw(t, "answer"), ago.Draw(t, "answered")))
		pick("renewals late", late)
		pick("isolated", isolated)
		pick("void", void)
		v := x.verdict()
		s := v.Find(member("c"))
		a, dial := x.ev.Answers["c1"]
		dial = dial && judgeNow.Sub(a.At) < 2*sec
		left := slices.ContainsFunc(x.left, func(l Left) bool { return l.Incarnation == "c1" })
		replaced := slices.ContainsFunc(x.nodes, func(n Node) bool { return n.Incarnation == "c2" })
		present := slices.ContainsFunc(x.nodes, func(n Node) bool { return n.Incarnation == "c1" })
		if s.State == Gone && !left && !replaced && (!dial || a.Kind == Same) {
			t.Fatalf("gone (%s) without a dial that proves it", s.Reason)
		}
		if s.State == Alive && (!present || left) {
			t.Fatal("alive without a key, or after it left")
		}
		if s.State == Gone && a.Kind == NoAnswer && dial && !left && !replaced && judgeNow.Before(x.ev.Void) {
			t.Fatal("silence counted while it is void")
		}
		if (s.Waited || s.Cut) && s.State != Absent {
			t.Fatalf("%s, and it is told how long its key is absent", s.State)
		}
		if again := x.verdict(); again.Find(member("c")).State != s.State {
			t.Fatal("the same facts, another verdict")
		}
	})
}

// Who never answered any of those who accuse it is told of by its address; once it answered one of them it is silent.
func TestNeverReached(t *testing.T) {
	for want, never := range map[string][]bool{"never reached at " + member("c").Address: {true, true}, "silent": {true, false}} {
		x := given(accuses("a", 0), accuses("b", 0), dialled(NoAnswer, 0))
		for i := range x.suspects {
			x.suspects[i].Never = never[i]
		}
		if got := x.verdict().Find(member("c")); got.State != Gone || got.Reason != "silent" || got.Why != want {
			t.Errorf("%v: %s, %s, %q; want gone, silent, %q", never, got.State, got.Reason, got.Why, want)
		}
	}
}
