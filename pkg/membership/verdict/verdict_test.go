package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"pgregory.net/rapid"
)

const sec = time.Second

// judgeNow is the time of every verdict below.
var judgeNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// trial is the input of a verdict on c in a World of a, b, c and d. All are registered and no
// suspicion exists, unless a row says otherwise.
type trial struct {
	members  []membership.Ref
	nodes    []membership.Node
	left     []membership.Left
	suspects []membership.Suspicion
	ev       Evidence
}

func member(node string) membership.Ref {
	return membership.Ref{Node: node, Incarnation: membership.Incarnation(node + "1"), Address: node + ":1"}
}

// given is a trial with these facts.
func given(facts ...func(*trial)) *trial {
	x := &trial{ev: Evidence{Answers: map[membership.Incarnation]Answered{},
		Holds:  map[string]map[string]time.Time{},
		Absent: map[membership.Incarnation]time.Time{}, OnTime: judgeNow.Add(-time.Hour)}}
	for _, n := range []string{"a", "b", "c", "d"} {
		x.members = append(x.members, member(n))
		x.nodes = append(x.nodes, membership.Node{Ref: member(n), Rev: 7})
	}
	for _, f := range facts {
		f(x)
	}
	return x
}

func (x *trial) verdict() View {
	return Judge(Records{Members: x.members, Nodes: x.nodes, Left: x.left, Suspects: x.suspects},
		x.ev, DefaultTimeouts(3*sec), judgeNow)
}

// accuses adds a suspicion of c by a watcher, which confirmed it ago.
func accuses(by string, ago time.Duration) func(*trial) {
	return func(x *trial) {
		x.suspects = append(x.suspects, membership.Suspicion{Node: "c", By: by, Incarnation: "c1",
			Watcher: membership.Incarnation(by + "1"), Sign: membership.Silent})
		if x.ev.Holds["c"] == nil {
			x.ev.Holds["c"] = map[string]time.Time{}
		}
		x.ev.Holds["c"][by] = judgeNow.Add(-ago)
	}
}

// wrote adds a suspicion of c by a watcher that was not asked yet.
func wrote(by string) func(*trial) {
	return func(x *trial) { accuses(by, 0)(x); delete(x.ev.Holds["c"], by) }
}

// noKey deletes the registration of c, ago.
func noKey(ago time.Duration) func(*trial) {
	return func(x *trial) {
		x.nodes = slices.DeleteFunc(x.nodes, func(n membership.Node) bool { return n.Node == "c" })
		x.ev.Absent["c1"] = judgeNow.Add(-ago)
	}
}

// dialled sets the result of a dial of c, ago.
func dialled(kind membership.AnswerKind, ago time.Duration) func(*trial) {
	return func(x *trial) { x.ev.Answers["c1"] = Answered{membership.Answer{Kind: kind}, judgeNow.Add(-ago)} }
}

// says makes c answer with the state of its workers.
func says(failed, ended bool) func(*trial) {
	return func(x *trial) {
		x.ev.Answers["c1"] = Answered{membership.Answer{Kind: membership.Same, Incarnation: "c1",
			Failed: failed, Ended: ended}, judgeNow}
	}
}

// nextLife registers another incarnation of node.
func nextLife(node string) func(*trial) {
	return func(x *trial) {
		for i := range x.nodes {
			if x.nodes[i].Node == node {
				x.nodes[i].Incarnation, x.nodes[i].Rev = membership.Incarnation(node+"2"), 9
			}
		}
	}
}

// dropped makes node no member and not registered.
func dropped(node string) func(*trial) {
	return func(x *trial) {
		x.members = slices.DeleteFunc(x.members, func(r membership.Ref) bool { return r.Node == node })
		x.nodes = slices.DeleteFunc(x.nodes, func(n membership.Node) bool { return n.Node == node })
	}
}

func hasLeft(inc membership.Incarnation) func(*trial) {
	return func(x *trial) {
		x.left = append(x.left, membership.Left{Node: "c", Incarnation: inc, Reason: membership.Terminated})
	}
}

// renewing makes the judge's renewals on time since ago.
func renewing(ago time.Duration) func(*trial) {
	return func(x *trial) { x.ev.OnTime = judgeNow.Add(-ago) }
}

// asked makes a the judge. Its suspicion has revision 5, and until ago c had not answered it in the
// store.
func asked(ago time.Duration) func(*trial) {
	return func(x *trial) {
		x.ev.Self = "a1"
		x.ev.Unanswered = map[membership.Incarnation]Unanswered{"c1": {Rev: 5, At: judgeNow.Add(-ago)}}
		for i := range x.suspects {
			x.suspects[i].Rev = 5
		}
	}
}

// answered: c answered the suspicions in the store.
func answered(x *trial) {
	for i := range x.suspects {
		x.suspects[i].Answered = true
	}
}

// pair leaves only a and c registered.
func pair(x *trial) { dropped("b")(x); dropped("d")(x) }

func late(x *trial)     { x.ev.OnTime = time.Time{} }
func isolated(x *trial) { x.ev.Isolated = true }
func alone(x *trial)    { x.nodes = x.nodes[:1] }
func void(x *trial)     { x.ev.Void = judgeNow.Add(sec) }

// TestJudge is the table of docs/PROTOCOL.md, section 4, row by row.
func TestJudge(t *testing.T) {
	describe := func(s *Member, asked bool) string {
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
		}{{s.PastWindow, "waited"}, {s.PastCutLimit, "cut"}, {s.WorkerFailed, "failed"},
			{s.WorkersEnded, "ended"}, {asked, "ask"}} {
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
			{"no node reports anything", given(), "alive"},
			{"it answers", given(dialled(membership.Same, 0)), "alive"},
			{"two accuse it, and it answers me: the accusation is void",
				given(accuses("a", 0), accuses("b", 0), dialled(membership.Same, 0)), "alive"},
			{"no answer to me, and no node suspects it", given(dialled(membership.NoAnswer, 0)), "alive"},
		}},
		{"key absent, node answers as that incarnation: not gone", []judged{
			{"just now", given(noKey(0), dialled(membership.Same, 0)), "absent"},
			{"before the window has passed", given(noKey(10*sec-1), dialled(membership.Same, 0)), "absent"},
			{"past the window it is dropped with the next change",
				given(noKey(10*sec), dialled(membership.Same, 0)), "absent, waited"},
			{"past the cut limit it is a cause",
				given(noKey(time.Minute), dialled(membership.Same, 0)), "absent, waited, cut"},
			{"its worker failed: it is a cause", given(noKey(sec), says(true, false)), "absent, failed"},
			{"its worker failed while the store was away", given(noKey(sec), says(true, false), void), "absent"},
			{"its workers ended", given(noKey(sec), says(true, true)), "absent, failed, ended"},
			{"accused by two, but it answers",
				given(noKey(sec), accuses("a", 0), accuses("b", 0), dialled(membership.Same, 0)), "absent"},
			{"the store was away: the window begins anew",
				given(noKey(20*sec), dialled(membership.Same, 0), void), "absent"},
			{"the store was away: so does the cut limit",
				given(noKey(2*time.Minute), dialled(membership.Same, 0), void), "absent"},
			{"it was not asked yet", given(noKey(time.Hour)), "absent, ask"},
		}},
		{"dial refused by a host that answers, or answered by a stranger: gone", []judged{
			{"refused, one accuses it",
				given(accuses("b", 0), dialled(membership.Refused, 0)), "gone (agent-gone) by [b]"},
			{"refused, its watcher has not said yet whether it holds",
				given(wrote("b"), dialled(membership.Refused, 0)), "gone (agent-gone)"},
			{"refused, key absent", given(noKey(0), dialled(membership.Refused, 0)), "gone (agent-gone)"},
			{"refused counts also when silence does not",
				given(accuses("b", 0), dialled(membership.Refused, 0), void, isolated, late),
				"gone (agent-gone) by [b]"},
			{"a stranger answers",
				given(accuses("b", 0), dialled(membership.Stranger, 0)), "gone (agent-gone)"},
			{"refused, but two seconds ago",
				given(accuses("b", 0), dialled(membership.Refused, 2*sec)), "suspect, ask"},
			{"refused, and no suspicion is written", given(dialled(membership.Refused, 0)), "alive"},
		}},
		{"silence, confirmed by a second node: gone", []judged{
			{"two watchers hold it",
				given(accuses("a", 0), accuses("b", 0), dialled(membership.NoAnswer, 0)), "gone (silent) by [a b]"},
			{"one watcher holds it", given(accuses("b", 0), dialled(membership.NoAnswer, 0)), "suspect"},
			{"two watchers, not dialled by me", given(accuses("a", 0), accuses("b", 0)), "suspect, ask"},
			{"two watchers, my dial is old",
				given(accuses("a", 0), accuses("b", 0), dialled(membership.NoAnswer, 2*sec)), "suspect, ask"},
			{"C17: the second record's watcher was not asked",
				given(accuses("a", 0), wrote("b"), dialled(membership.NoAnswer, 0)), "suspect, ask"},
			{"C17: it was asked two seconds ago",
				given(accuses("a", 0), accuses("b", 2*sec), dialled(membership.NoAnswer, 0)), "suspect, ask"},
			{"the second watcher lives another life",
				given(accuses("a", 0), accuses("b", 0), nextLife("b"), dialled(membership.NoAnswer, 0)), "suspect"},
			{"the only watcher lives another life",
				given(accuses("b", 0), nextLife("b"), dialled(membership.NoAnswer, 0)), "alive"},
			{"the only watcher is registered no more",
				given(accuses("b", 0), dropped("b"), dialled(membership.NoAnswer, 0)), "alive"},
			{"records about another life of it",
				given(accuses("a", 0), accuses("b", 0), dialled(membership.NoAnswer, 0), func(x *trial) {
					x.suspects[0].Incarnation, x.suspects[1].Incarnation = "c0", "c0"
				}), "alive"},
			{"the same watcher twice is one",
				given(accuses("b", 0), func(x *trial) { x.ev.Holds["c"]["d"] = judgeNow },
					dialled(membership.NoAnswer, 0)), "suspect"},
		}},
		{"silence, and its lease ran out while my renewals were on time: gone, etcd is the witness", []judged{
			{"on time for a whole lease before",
				given(noKey(0), dialled(membership.NoAnswer, 0), renewing(3*sec)),
				"gone (lease-expired) by [etcd]"},
			{"on time for less than a lease before",
				given(noKey(sec), dialled(membership.NoAnswer, 0), renewing(4*sec-1)), "absent"},
			{"mine were late: etcd was away",
				given(noKey(sec), dialled(membership.NoAnswer, 0), late), "absent"},
			{"the store was away: void", given(noKey(sec), dialled(membership.NoAnswer, 0), void), "absent"},
			{"not dialled", given(noKey(sec)), "absent, ask"},
			{"its key is there", given(accuses("b", 0), dialled(membership.NoAnswer, 0)), "suspect"},
		}},
		{"silence, only two are registered, and no answer in the store: gone, etcd is the witness", []judged{
			{"no answer",
				given(pair, accuses("a", 0), asked(0), dialled(membership.NoAnswer, 0)), "gone (silent) by [a etcd]"},
			{"not waited for", given(pair, accuses("a", 0), dialled(membership.NoAnswer, 0)), "suspect"},
			{"an answer",
				given(pair, accuses("a", 0), asked(0), answered, dialled(membership.NoAnswer, 0)), "suspect"},
			{"another record was waited for", given(pair, accuses("a", 0), asked(0), func(x *trial) {
				x.suspects[0].Rev = 6
			}, dialled(membership.NoAnswer, 0)), "suspect"},
			{"two seconds ago",
				given(pair, accuses("a", 0), asked(2*sec), dialled(membership.NoAnswer, 0)), "suspect"},
			{"it answers me", given(pair, accuses("a", 0), asked(0), dialled(membership.Same, 0)), "alive"},
			{"a third node is registered",
				given(dropped("b"), accuses("a", 0), asked(0), dialled(membership.NoAnswer, 0)), "suspect"},
			{"the suspicion of another watcher", given(pair, accuses("a", 0), asked(0), func(x *trial) {
				x.ev.Self = "d1"
			}, dialled(membership.NoAnswer, 0)), "suspect"},
			{"my renewals are late: etcd may be slow",
				given(pair, accuses("a", 0), asked(0), late, dialled(membership.NoAnswer, 0)), "suspect"},
			{"the store was away",
				given(pair, accuses("a", 0), asked(0), void, dialled(membership.NoAnswer, 0)), "suspect"},
			{"isolated",
				given(pair, accuses("a", 0), asked(0), isolated, dialled(membership.NoAnswer, 0)), "suspect"},
			{"its key is gone, and that is not known for long enough",
				given(pair, accuses("a", 0), asked(0), noKey(0), renewing(sec), dialled(membership.NoAnswer, 0)),
				"absent"},
		}},
		{"silence and key absent for the window: gone", []judged{
			{"for the window", given(noKey(10*sec), dialled(membership.NoAnswer, 0), late), "gone (silent)"},
			{"not for so long", given(noKey(10*sec-1), dialled(membership.NoAnswer, 0), late), "absent"},
			{"the store was away",
				given(noKey(time.Minute), dialled(membership.NoAnswer, 0), late, void), "absent"},
		}},
		{"left names this incarnation: gone, at once and without a witness", []judged{
			{"key gone", given(noKey(0), hasLeft("c1")), "gone (left)"},
			{"its key is there again: a late registration", given(hasLeft("c1")), "gone (left)"},
			{"it even answers", given(hasLeft("c1"), dialled(membership.Same, 0)), "gone (left)"},
			{"void and isolated", given(noKey(0), hasLeft("c1"), void, isolated, late), "gone (left)"},
			{"an earlier life of it left", given(hasLeft("c0")), "alive"},
		}},
		{"node answers, or its key names, another incarnation: gone", []judged{
			{"its key names another", given(nextLife("c")), "gone (agent-gone)"},
			{"its key names another, and an agent answers as this one",
				given(nextLife("c"), dialled(membership.Same, 0)), "gone (agent-gone)"},
			{"it answers as another, key absent",
				given(noKey(0), dialled(membership.Other, 0)), "gone (agent-gone)"},
			{"C7: it answers as another while its old key lives",
				given(accuses("b", 0), dialled(membership.Other, 0)), "gone (agent-gone)"},
		}},
		{"no peer at all answers me: silence drops no node, a lease that ran out does", []judged{
			{"two hold it", given(accuses("a", 0), accuses("b", 0), dialled(membership.NoAnswer, 0),
				isolated),
				"suspect"},
			{"key absent for the window",
				given(noKey(time.Minute), dialled(membership.NoAnswer, 0), isolated, late), "absent"},
			{"its lease ran out, mine was on time, and no other node is registered",
				given(noKey(sec), dialled(membership.NoAnswer, 0), isolated, alone),
				"gone (lease-expired) by [etcd]"},
			{"its lease ran out, mine was on time, and others may reach it",
				given(noKey(sec), dialled(membership.NoAnswer, 0), isolated), "absent"},
		}},
		{"many suspected at once, or the store was away: silence counts for nothing for a window", []judged{
			{"two hold it",
				given(accuses("a", 0), accuses("b", 0), dialled(membership.NoAnswer, 0), void), "suspect"},
			{"the window has passed", given(accuses("a", 0), accuses("b", 0), dialled(membership.NoAnswer, 0),
				func(x *trial) { x.ev.Void = judgeNow }), "gone (silent) by [a b]"},
			{"a refused dial still counts",
				given(accuses("a", 0), dialled(membership.Refused, 0), void), "gone (agent-gone) by [a]"},
		}},
	} {
		t.Run(section.row, func(t *testing.T) {
			for _, c := range section.rows {
				v := c.trial.verdict()
				ref := member("c")
				if got := describe(v.Find(ref), slices.ContainsFunc(v.Ask, ref.Same)); got != c.want {
					t.Errorf("%s: %s, want %s", c.name, got, c.want)
				}
				for _, other := range []string{"a", "b", "d"} {
					if s := v.Find(member(other)); s != nil && s.State != Alive && s.Registered {
						t.Errorf("%s: no node suspects %s, and it is %s", c.name, other, s.State)
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
	x := given(noKey(0), dialled(membership.Same, 0), nextLife("d"))
	x.members = append(x.members, membership.Ref{Node: "e", Incarnation: "e0"}) // a leaver, long gone
	x.nodes = append(x.nodes, membership.Node{Ref: member("s"), Rev: 8})
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
	if s := v.Find(member("d")); s.Rev != 9 || s.Registered {
		t.Errorf("d lives again: rev %d, mine %v: want the revision of its new key, not its own",
			s.Rev, s.Registered)
	}
	if s := v.Find(member("c")); s.Rev != 0 || s.Registered {
		t.Errorf("the key of c is absent: rev %d, mine %v", s.Rev, s.Registered)
	}
	if v.Find(membership.Ref{Node: "a", Incarnation: "a0"}) != nil {
		t.Error("an earlier life of a is found")
	}
}

// doubted is a view of n members on a ring, a, b, c and so on. A sign is a suspicion of c against
// a, "c>a", or the missing key of b, "b".
func doubted(n int, signs ...string) View {
	x := given()
	x.members, x.nodes = nil, nil
	for i := range n {
		x.members = append(x.members, member(string(rune('a'+i))))
	}
	for _, m := range append(x.members, member("spare")) {
		if slices.Contains(signs, m.Node) {
			x.ev.Absent[m.Incarnation] = judgeNow
			continue
		}
		x.nodes = append(x.nodes, membership.Node{Ref: m, Rev: 7})
	}
	for _, s := range signs {
		if by, about, ok := strings.Cut(s, ">"); ok {
			x.suspects = append(x.suspects,
				membership.Suspicion{Node: about, By: by, Incarnation: membership.Incarnation(about + "1"),
					Watcher: membership.Incarnation(by + "1"), Sign: membership.Silent})
		}
	}
	return x.verdict()
}

func TestCrowd(t *testing.T) {
	all := func(n int) (signs []string) {
		for i := range n {
			signs = append(signs, string(rune('a'+i)))
		}
		return signs
	}
	each := func(nodes ...string) (signs []string) { // each suspects each
		for _, a := range nodes {
			for _, b := range nodes {
				if a != b {
					signs = append(signs, a+">"+b)
				}
			}
		}
		return signs
	}
	for _, c := range []struct {
		name  string
		n     int
		signs []string
		want  bool
	}{
		{"no node is suspected", 3, nil, false},
		{"one is lost", 2, []string{"b>a"}, false},
		{"one is lost, of three", 3, []string{"b>a", "c>a"}, false},
		{"its lease ran out, too", 3, []string{"b>a", "c>a", "a"}, false},
		// c may be cut off instead: only c suspects them
		{"two are lost, of three", 3, []string{"c>a", "c>b"}, false},
		{"two are lost, of three, and a spare says so", 3, []string{"c>a", "c>b", "spare>b"}, true},
		{"two are lost, of five", 5, []string{"d>b", "c>b", "e>c", "d>c"}, true},
		{"two are lost, of ten", 10, []string{"d>b", "e>c", "d>c"}, false},
		{"three are lost, of ten", 10, []string{"d>c", "e>c", "f>e", "g>e", "h>g", "i>g"}, true},
		{"two leases ran out, of six", 6, []string{"b", "d"}, true},
		{"two leases ran out, of seven", 7, []string{"b", "d"}, false},
		{"etcd was away: all leases ran out", 3, all(3), true},
		{"of ten", 10, all(10), true},

		{"one is cut off from its peers, of three", 3, []string{"c>a", "c>b", "a>c", "b>c"}, false},
		{"the first signs of it", 3, []string{"c>a", "c>b"}, false},
		{"the first signs of it, of one and about one", 3, []string{"c>a", "a>c"}, false},
		{"of two, and a spare", 2, []string{"b>a", "a>b", "spare>b"}, false},
		{"of four", 4, []string{"c>a", "c>b", "d>c", "a>c"}, false},
		{"of five", 5, []string{"c>a", "c>b", "d>c", "e>c"}, false},
		{"of ten", 10, []string{"c>a", "c>b", "d>c", "e>c"}, false},
		{"and another one is suspected", 5, []string{"c>a", "c>b", "d>c", "e>c", "a>e"}, true},
		{"and the lease of another one ran out", 5, []string{"c>a", "c>b", "d>c", "e>c", "b"}, true},
		{"two are cut off from the rest, of five", 5, []string{"a>e", "a>d", "b>e", "c>b", "c>a", "d>b"},
			true},
		{"of ten: few causes, but two would accuse a healthy one", 10,
			[]string{"a>j", "a>i", "b>j", "c>b", "c>a", "d>b"}, true},
		{"two do not reach each other", 3, []string{"a>b", "b>a"}, false},
		{"a starved one suspects two", 5, []string{"c>a", "c>b"}, false},
		{"a starved spare suspects two", 3, []string{"spare>b", "spare>c"}, false},
		{"all are starved, of three", 3, each("a", "b", "c"), true},
		{"of five", 5, each("a", "b", "c", "d", "e"), true},
		{"what a watcher wrote that is registered no more says nothing", 5,
			[]string{"c>a", "c>b", "d>c", "e>c", "c"}, false},
	} {
		if got := ManyInDoubt(doubted(c.n, c.signs...), c.n); got != c.want {
			t.Errorf("%s: %v of %d: %v, want %v", c.name, c.signs, c.n, got, c.want)
		}
	}
	for n, few := range map[int]int{2: 1, 3: 1, 6: 1, 7: 2, 10: 2, 1000: 299} { // may be in doubt
		v := View{Members: make([]Member, n)}
		for i := range n {
			v.Members[i] = Member{Ref: member(fmt.Sprint(i)), State: Alive}
		}
		for i := range few + 1 {
			if ManyInDoubt(v, n) {
				t.Errorf("%d of %d are a crowd", i, n)
			}
			v.Members[i].State = Absent
		}
		if !ManyInDoubt(v, n) {
			t.Errorf("%d of %d are no crowd", few+1, n)
		}
	}
	if ManyInDoubt(View{Members: []Member{{State: Gone}, {State: Gone}, {State: Gone}}}, 3) {
		t.Error("nodes that are certainly gone are no crowd of suspects")
	}
}

// If many are in doubt without a crowd, silence can drop at most one of them: no other has two
// watchers against it.
func TestWhatIsNoCrowdDropsOneAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "n") // where two are many
		var signs []string
		for range rapid.IntRange(0, 12).Draw(t, "signs") {
			by, about := rapid.IntRange(0, n-1).Draw(t, "by"), rapid.IntRange(0, n-1).Draw(t, "about")
			if s := fmt.Sprintf("%c>%c", 'a'+by, 'a'+about); by != about && !slices.Contains(signs, s) {
				signs = append(signs, s)
			}
		}
		v, accused := doubted(n, signs...), 0
		for _, m := range v.Members {
			if len(m.Doubts()) >= 2 {
				accused++
			}
		}
		if !ManyInDoubt(v, n) && accused > 1 {
			t.Fatalf("%v is no crowd, and %d have two accusers", signs, accused)
		}
	})
}

// An answering node is never dropped, whatever else is known.
func TestJudgeNeverDropsAnsweringNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := given()
		ago := rapid.SampledFrom([]time.Duration{
			0, sec, 2*sec - 1, 2 * sec, 3 * sec, 10 * sec, time.Minute, time.Hour})
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
		pick("left", hasLeft(rapid.SampledFrom([]membership.Incarnation{"c0", "c1"}).Draw(t, "left")))
		pick("dialled", dialled(
			rapid.SampledFrom([]membership.AnswerKind{membership.NoAnswer, membership.Same,
				membership.Other, membership.Stranger, membership.Refused}).Draw(t, "answer"),
			ago.Draw(t, "answered")))
		pick("renewals late", late)
		pick("isolated", isolated)
		pick("void", void)
		v := x.verdict()
		s := v.Find(member("c"))
		a, dial := x.ev.Answers["c1"]
		dial = dial && judgeNow.Sub(a.At) < 2*sec
		left := slices.ContainsFunc(x.left, func(l membership.Left) bool { return l.Incarnation == "c1" })
		replaced := slices.ContainsFunc(x.nodes,
			func(n membership.Node) bool { return n.Incarnation == "c2" })
		present := slices.ContainsFunc(x.nodes, func(n membership.Node) bool { return n.Incarnation == "c1" })
		if s.State == Gone && !left && !replaced && (!dial || a.Kind == membership.Same) {
			t.Fatalf("gone (%s) without a dial that proves it", s.Reason)
		}
		if s.State == Alive && (!present || left) {
			t.Fatal("alive without a key, or after it left")
		}
		if s.State == Gone && a.Kind == membership.NoAnswer && dial && !left && !replaced &&
			judgeNow.Before(x.ev.Void) {
			t.Fatal("silence counted while it is void")
		}
		if (s.PastWindow || s.PastCutLimit) && s.State != Absent {
			t.Fatalf("%s, and the verdict says how long its key is absent", s.State)
		}
		if again := x.verdict(); again.Find(member("c")).State != s.State {
			t.Fatal("the same facts, another verdict")
		}
	})
}

// A node that never answered any of its watchers is reported with its address. If it answered one
// of them before, it is reported silent.
func TestNeverReached(t *testing.T) {
	for want, never := range map[string][]bool{"never reached at " + member("c").Address: {true, true},
		"silent": {true, false}} {
		x := given(accuses("a", 0), accuses("b", 0), dialled(membership.NoAnswer, 0))
		for i := range x.suspects {
			x.suspects[i].Never = never[i]
		}
		if got := x.verdict().Find(member("c")); got.State != Gone || got.Reason != "silent" ||
			got.Why != want {
			t.Errorf("%v: %s, %s, %q; want gone, silent, %q", never, got.State, got.Reason, got.Why, want)
		}
	}
}
