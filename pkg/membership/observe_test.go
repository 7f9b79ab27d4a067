package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWatches(t *testing.T) {
	nodeD := Ref{Node: "d", Incarnation: "d1", Address: "10.0.0.4:1"}
	ring, four := []Ref{nodeA, nodeB, nodeC}, []Ref{nodeA, nodeB, nodeC, nodeD}
	for _, c := range []struct {
		name    string
		ring    []Ref
		me      Ref
		refused []Ref
		want    []Ref
	}{
		{"the two before", ring, nodeC, nil, []Ref{nodeB, nodeA}},
		{"around the ring", ring, nodeA, nil, []Ref{nodeC, nodeB}},
		{"one other", ring[:2], nodeA, nil, []Ref{nodeB}},
		{"alone", ring[:1], nodeA, nil, nil},
		{"another life of mine is there", ring, Ref{Node: "a", Incarnation: "a2"}, nil, nil},
		{"behind one that refused", four, nodeD, []Ref{nodeC}, []Ref{nodeC, nodeB, nodeA}},
		{"behind the second", four, nodeD, []Ref{nodeB}, []Ref{nodeC, nodeB, nodeA}},
		{"one further away refused", four, nodeD, []Ref{nodeA}, []Ref{nodeC, nodeB}},
		{"all refused", four, nodeD, []Ref{nodeA, nodeB, nodeC}, []Ref{nodeC, nodeB, nodeA}},
	} {
		if got := WatchTargets(c.ring, c.me, 2,
			func(r Ref) bool { return slices.Contains(c.refused, r) }); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestEachNodeOfManyIsWatchedByTwo(t *testing.T) {
	ring := make([]Ref, 1000)
	for i := range ring {
		ring[i] = Ref{Node: fmt.Sprint(i), Incarnation: Incarnation(fmt.Sprint(i))}
	}
	in := map[Ref]int{}
	for _, me := range ring {
		out := WatchTargets(ring, me, 2, func(Ref) bool { return false })
		if len(out) != 2 || slices.Contains(out, me) {
			t.Fatalf("%s watches %v", me.Node, out)
		}
		in[out[0]]++
		in[out[1]]++
	}
	for _, r := range ring {
		if in[r] != 2 {
			t.Errorf("%s is watched by %d", r.Node, in[r])
		}
	}
}

// However many neighbours end at once, the next two nodes on the ring find all of them.
func TestARowIsFound(t *testing.T) {
	ring := make([]Ref, 100)
	dead := map[Ref]bool{}
	for i := range ring {
		ring[i] = Ref{Node: fmt.Sprint(i), Incarnation: Incarnation(fmt.Sprint(i))}
		dead[ring[i]] = i >= 80 || i < 10
	}
	for _, next := range ring[10:12] {
		found, steps := map[Ref]bool{}, 0
		for before := -1; before != len(found); {
			before, steps = len(found), steps+1
			for _, r := range WatchTargets(ring, next, 2, func(r Ref) bool { return found[r] }) {
				if dead[r] {
					found[r] = true
				}
			}
		}
		if len(found) != 30 {
			t.Errorf("%s finds %d of 30", next.Node, len(found))
		}
		if steps > 7 {
			t.Errorf("%s needs %d steps for 30 nodes", next.Node, steps)
		}
	}
}

// TestObserve passes sequences of events to the pure core and compares the signals.
func TestObserve(t *testing.T) {
	type step struct {
		at   int // ms
		on   event
		want string
	}
	on := func(k kind) event { return event{kind: k} }
	ends := func(k AnswerKind) event { return event{kind: ended, answer: Answer{Kind: k}} }
	for name, story := range map[string][]step{
		"killed": {
			{0, on(begun), "dial"}, {2, on(answered), ""}, {250, on(ticked), "beat"}, {251, on(answered), ""},
			{300, ends(NoAnswer), "dial"}, {301, ends(Refused), "connection-closed refused 50"},
			{500, on(ticked), ""}, {1300, on(ticked), ""}, {1301, on(ticked), "dial"},
			{1302, ends(Refused), ""},
		},
		"dead before it was watched": {{0, on(begun), "dial"},
			{1, ends(Refused), "connection-closed refused 1"}},
		"a mere reset": {
			{0, on(begun), "dial"}, {2, on(answered), ""}, {100, ends(NoAnswer), "dial"},
			{102, on(answered), ""},
			{250, on(ticked), "beat"},
		},
		"resets all the time": {
			{0, on(begun), "dial"}, {2, on(answered), ""}, {100, ends(NoAnswer), "dial"},
			{102, on(answered), ""},
			{103, ends(NoAnswer), ""}, {250, on(ticked), "dial"}, {251, on(answered), ""},
			{400, ends(NoAnswer), "dial"},
		},
		"another life": {
			{0, on(begun), "dial"}, {2, on(answered), ""}, {100, ends(NoAnswer), "dial"},
			{102, ends(Other), "connection-closed other 100"},
		},
		"a stranger": {
			{0, on(begun), "dial"}, {2, ends(Stranger), "connection-closed stranger 2"},
		},
		"frozen and thawed": {
			{0, on(begun), "dial"}, {1, on(answered), ""}, {250, on(ticked), "beat"}, {251, on(answered), ""},
			{500, on(ticked), "beat"}, {750, on(ticked), "dial"}, {850, on(expired), ""},
			{851, on(expired), "silent no answer 600"}, {1000, on(ticked), ""}, {4000, ends(NoAnswer), ""},
			{4250, on(ticked), ""},
			{5000, on(ticked), "dial"}, {5250, on(ticked), ""}, {5600, on(answered), "cleared"},
			{5750, on(ticked), "beat"},
		},
		"the stream is dead, the node is not": {
			{0, on(begun), "dial"}, {1, on(answered), ""}, {250, on(ticked), "beat"},
			{500, on(ticked), "dial"},
			{510, on(answered), ""}, {750, on(ticked), "beat"}, {1000, on(ticked), "dial"},
			{1010, on(answered), ""},
		},
		"a slow dial is no silence before its time": {
			{0, on(begun), "dial"}, {250, on(ticked), ""}, {500, on(ticked), ""}, {750, on(ticked), ""},
			{990, on(answered), ""}, {1000, on(ticked), "beat"},
		},
		"no route at once": { // a failed dial is no silence before the limit, and is not repeated then
			{0, on(begun), "dial"}, {1, on(answered), ""}, {100, ends(NoAnswer), "dial"},
			{101, ends(NoAnswer), ""},
			{250, on(ticked), "dial"}, {251, ends(NoAnswer), ""}, {500, on(ticked), "dial"},
			{501, ends(NoAnswer), ""},
			{601, on(expired), "silent no answer 600"}, {750, on(ticked), "dial"}, {751, ends(NoAnswer), ""},
			{1500, on(ticked), ""}, {1751, on(ticked), "dial"},
		},
		"silent, then killed": {
			{0, on(begun), "dial"}, {500, on(ticked), ""}, {1000, on(ticked), "never heard, no answer 1000"},
			{1501, ends(Refused), "connection-closed refused 1501"},
		},
		"killed, then its host is off": {
			{0, on(begun), "dial"}, {1, ends(Refused), "connection-closed refused 1"},
			{1001, on(ticked), "dial"},
			{2250, on(ticked), ""},
			{4001, ends(NoAnswer), ""}, {4250, on(ticked), ""}, {5250, on(ticked), "dial"},
			{5300, on(answered), "cleared"},
		},
		"I stalled on an open line": {
			{0, on(begun), "dial"}, {1, on(answered), ""}, {250, on(ticked), "beat"}, {5000, on(stalled), ""},
			{5000, on(ticked), "beat"}, {5001, ends(NoAnswer), "dial"}, {5250, on(ticked), ""},
			{5501, on(ticked), ""},
			{5600, on(expired), "silent no answer 600"},
		},
		"I stalled while dialling": {
			{0, on(begun), "dial"}, {5000, on(stalled), ""}, {5250, on(ticked), ""}, {5500, on(ticked), ""},
			{5750, on(ticked), ""},
			{6001, on(ticked), "never heard, no answer 1001"},
		},
		"I stalled between two dials": {
			{0, on(begun), "dial"}, {100, ends(NoAnswer), ""}, {5000, on(stalled), ""},
			{6100, on(ticked), "dial"},
			{6250, on(ticked), ""}, {6500, on(ticked), "never heard, no answer 1500"},
		},
		"my own ticks come late": { // this process did not run for 400 of these 1250 ms
			{0, on(begun), "dial"}, {1, on(answered), ""}, {250, on(ticked), "beat"}, {251, on(answered), ""},
			{900, event{kind: starved, late: 400 * ms}, ""}, {900, on(ticked), "beat"},
			{1150, on(ticked), "dial"},
			{1200, event{kind: starved, late: 400 * ms}, ""}, {1500, on(expired), ""}, {1600, on(ticked), ""},
			{1651, on(expired), "silent no answer 600"},
		},
		"late as they are, they renew no node": {
			{0, on(begun), "dial"}, {800, on(answered), ""}, {900, event{kind: starved, late: 900 * ms}, ""},
			{900, on(ticked), "beat"},
			{1270, on(ticked), "beat"}, {1280, on(ticked), "dial"},
		},
		"what I held before my stall I count anew": {
			{0, on(begun), "dial"}, {1000, on(ticked), "never heard, no answer 1000"},
			{3000, ends(NoAnswer), ""},
			{4000, on(ticked), "dial"},
			{9000, on(stalled), "void"}, {9250, on(ticked), "void"}, {9750, on(ticked), "void"},
			{10000, on(ticked), "never heard, no answer 1000"},
		},
		"what I held before my stall was wrong": {
			{0, on(begun), "dial"}, {1, ends(Refused), "connection-closed refused 1"},
			{5000, on(stalled), "void"},
			{5000, on(ticked), "dial void"}, {5001, on(answered), "cleared"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t0 := time.Now()
			n := &watched{ref: nodeA}
			for _, s := range story {
				o := n.observe(s.on, t0.Add(time.Duration(s.at)*ms), DefaultBeats())
				if got := describe(o, n); got != s.want {
					t.Fatalf("at %d ms: %q, want %q", s.at, got, s.want)
				}
			}
		})
	}
}

func describe(o orders, n *watched) string {
	var words []string
	if o.open {
		words = append(words, "dial")
	}
	if o.beat && !o.open && n.phase == up {
		words = append(words, "beat")
	}
	for _, s := range o.signals {
		if s.Cleared() {
			words = append(words, "cleared")
			continue
		}
		sign := string(s.Sign)
		if s.Never && s.Sign == Silent {
			sign = "never heard,"
		}
		words = append(words, fmt.Sprintf("%s %s %d", sign, s.Answer.Kind, s.Silent.Milliseconds()))
	}
	if n.void {
		words = append(words, "void")
	}
	line := ""
	for i, w := range words {
		if i > 0 {
			line += " "
		}
		line += w
	}
	return line
}

// TestObserveNeverAccusesWithoutEvidence runs random events against what a signal claims.
func TestObserveNeverAccusesWithoutEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := DefaultBeats()
		now := time.Now()
		n := &watched{ref: nodeA}
		n.observe(event{kind: begun}, now, b)
		since, dialled, live, failed := now, now, true, false
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * ms)
			e := event{kind: kind(rapid.IntRange(int(ticked), int(stalled)).Draw(t, "kind"))}
			if e.kind == ended {
				if !live {
					continue // nothing there that could end
				}
				if n.phase == dialling {
					e.answer.Kind = AnswerKind(
						rapid.SampledFrom([]AnswerKind{NoAnswer, NoAnswer, Refused, Other,
							Stranger}).Draw(t, "answer"))
				}
			}
			if e.kind == answered && !live {
				continue
			}
			if e.kind == starved {
				e.late = time.Duration(rapid.IntRange(0, 1000).Draw(t, "late")) * ms
			}
			wasUp, held, wait := n.phase == up, n.sign, n.wait(b)
			o := n.observe(e, now, b)
			switch e.kind {
			case answered:
				since, failed = now, false
			case stalled:
				since, failed = now, false
			case starved:
				since = earlier(since.Add(e.late), now)
			case ended:
				live = false
				failed = failed || !wasUp && e.answer.Kind == NoAnswer
			case ticked, expired:
				failed = failed || !wasUp && live && now.Sub(dialled) >= wait
			}
			if o.open {
				dialled, live = now, true
			}
			if o.beat && n.phase == down {
				t.Fatal("a beat without a line")
			}
			for _, s := range o.signals {
				switch {
				case s.Sign == Silent && (!failed || now.Sub(since) < b.Silence):
					t.Fatalf("silent after %s, dial failed: %v", now.Sub(since), failed)
				case s.Sign == ConnectionClosed && (e.kind != ended || e.answer.Kind == NoAnswer):
					t.Fatalf("closed after %+v", e)
				case s.Cleared() && (e.kind != answered || held == ""):
					t.Fatal("cleared without cause")
				}
			}
			if e.kind == answered && n.sign != "" {
				t.Fatal("it answered and is held a suspect")
			}
			if !live && n.next.Sub(now) > b.Retry {
				t.Fatal("given up")
			}
		}
	})
}
