package rendezvous_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// crowd registers n nodes, many in one transaction.
func (w *storedJob) crowd(n int) *storedJob {
	w.t.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	for some := range slices.Chunk(names, 100) {
		var t store.Txn
		for _, name := range some {
			m := membership.Node{Ref: membership.Ref{Node: name,
				Incarnation: membership.Incarnation(name + "-1"), Address: name + ":1"}, Attempt: 1, Slots: 1}
			w.nodes[name] = m
			t.Then = append(t.Then, store.Put(w.Job.Node(name), schema.Encode(m)))
		}
		_, err := w.Store.Txn(w.t.Context(), t)
		w.must(err)
	}
	for _, m := range w.see().Nodes {
		w.nodes[m.Node] = m
	}
	w.nodes["a"] = w.nodes["n00000"]
	return w
}

// step plans on what is in the store, where dead nodes refuse every dial.
func (w *storedJob) step(s *rendezvous.Snapshot, marks *plan.Observed, dead map[string]bool) plan.Step {
	ev := verdict.Evidence{Answers: map[membership.Incarnation]verdict.Answered{},
		Holds:  map[string]map[string]time.Time{},
		Absent: map[membership.Incarnation]time.Time{}, OnTime: noon.Add(-time.Hour)}
	var refs []membership.Ref
	if s.World != nil {
		refs = slices.Concat(s.World.Members, s.World.Leavers)
	}
	for _, r := range refs {
		if dead[r.Node] {
			ev.Answers[r.Incarnation] = verdict.Answered{Answer: membership.Answer{Kind: membership.Refused},
				At: noon}
		}
		if s.Node(r.Node) == nil {
			ev.Absent[r.Incarnation] = noon
		}
	}
	v := verdict.Judge(verdict.Records{Members: refs, Nodes: s.Nodes, Left: s.Left, Suspects: s.Suspects},
		ev, verdict.DefaultTimeouts(3*time.Second), noon)
	marks.Update(s, v, noon)
	return plan.Next(plan.Facts{Snapshot: s, View: v, Observed: *marks, Timeouts: plan.DefaultTimeouts,
		Now: noon})
}

func TestWorldsOfManyNodes(t *testing.T) {
	for _, n := range []int{100, 101, 5000, 10_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			tally := &memory.Tally{}
			c := memory.New()
			w := newStoredJob(t, memory.Count(c.Client("test"), tally), "x").create(n).crowd(n)
			var marks plan.Observed
			s := w.see()
			p, ok := w.step(s, &marks, nil).(plan.Propose)
			if !ok || p.World.Count != n {
				t.Fatalf("%d nodes are here, and: %s", n, stepText(w.step(s, &marks, nil)))
			}
			for i := range n / 2 {
				name := fmt.Sprintf("left%05d", i)
				p.World.Leavers = append(p.World.Leavers,
					membership.Ref{Node: name, Incarnation: "i", Address: name + ":1"})
			}
			proposed, err := w.Propose(t.Context(), s, w.me(), p)
			w.must(err)

			s = w.see()
			whole := func(reader string, got *rendezvous.World) {
				t.Helper()
				if got == nil || !slices.Equal(got.Members, p.World.Members) ||
					!slices.Equal(got.Leavers, p.World.Leavers) || got.Proposal != proposed.Proposal {
					t.Errorf("%s sees another world", reader)
				}
			}
			whole("a node that reads it", s.World)
			whole("an ordinary member",
				follow.Reader{Store: w.Store, Job: w.Job, Node: "n00007"}.ReadOwn(t.Context()).World)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			found := follow.Reader{Store: w.Store, Job: w.Job, Node: "n00007",
				Members: new(follow.MemberCache)}.Follow(ctx, follow.ScopeOwn)
			whole("a node that follows", (<-found).World)
			before := w.entries()
			for k, e := range before {
				if len(e.Value) > 1_000_000 {
					t.Errorf("%s has %d bytes: etcd takes 1.5 MB", k, len(e.Value))
				}
			}
			chunks := 0
			if n > 100 {
				chunks = (n + n/2 + 3999) / 4000
			}
			if got := len(keysBelow(before, w.Job.AllPlans())); got != chunks || s.World.Chunks != chunks {
				t.Errorf("%d parts (the world says %d), want %d", got, s.World.Chunks, chunks)
			}
			if size := len(before[w.Job.World()].Value); n > 100 && size > 2000 {
				t.Errorf("the world record has %d bytes: each node receives it with every phase", size)
			}

			// A new phase is a small record, not all of it again.
			sent := tally.Sent.Load()
			_, err = w.Run(t.Context(), s,
				txn.Starting{Step: plan.Run{Master: rendezvous.Master{Host: "m", Port: 1}}})
			w.must(err)
			if sent = tally.Sent.Load() - sent; n > 100 && sent > 3000 {
				t.Errorf("to turn the world to running %d bytes were sent", sent)
			}
			for seen := range found {
				if w := seen.World; w.Phase == rendezvous.Running {
					whole("a node that follows it to running", w)
					break
				}
			}
		})
	}
}

func keysBelow(entries map[string]store.Entry, prefix string) (below []string) {
	for k := range entries {
		if strings.HasPrefix(k, prefix) {
			below = append(below, k)
		}
	}
	return below
}

// 250 of 300 nodes die at once. A transaction has at most 128 comparisons, so it takes three
// generations to drop them all, and none is left over.
func TestManyAreLostAtOnce(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x")
	j := *aRange(1, 300).Job
	j.Name = w.Job
	w.must(w.Create(t.Context(), j))
	w.crowd(300)
	dead := map[string]bool{}
	for i := range 250 {
		dead[fmt.Sprintf("n%05d", i+50)] = true
	}
	var marks plan.Observed
	alive := map[string]bool{}
	var story []string
	for range 20 {
		s := w.see()
		refs := map[membership.Ref]bool{}
		if s.World != nil {
			for _, r := range slices.Concat(s.World.Members, s.World.Leavers) {
				refs[r] = true
			}
		}
		suspected := s.Suspects == nil && s.World != nil && s.World.Phase == rendezvous.Running
		// one watcher each, as the ring would have it: the writes of a proposal have room for some
		if suspected {
			for some := range slices.Chunk(slices.Collect(maps.Keys(dead)), 100) {
				var txn store.Txn
				for _, n := range some {
					txn.Then = append(txn.Then,
						store.Put(w.Job.Suspect(n, "n00000"), schema.Encode(membership.Suspicion{
							Incarnation: w.nodes[n].Incarnation, Watcher: w.me().Incarnation,
							Sign: membership.ConnectionClosed})))
				}
				_, err := w.Store.Txn(t.Context(), txn)
				w.must(err)
			}
			s = w.see()
		}
		step := w.step(s, &marks, dead)
		story = append(story, fmt.Sprintf("%T", step))
		switch step := step.(type) {
		case plan.Propose:
			if g := 5 + len(step.Evicted) + len(step.Dropped); g > store.MaxOps {
				t.Fatalf("%d comparisons", g)
			}
			places := map[membership.Ref]bool{}
			for _, r := range slices.Concat(step.World.Members, step.World.Leavers) {
				places[r] = true
			}
			for _, x := range slices.Concat(step.Evicted, step.Dropped) {
				places[x.Ref] = true
			}
			for r := range refs {
				if !places[r] {
					t.Fatalf("%s is forgotten", r.Node)
				}
			}
			_, err := w.Propose(t.Context(), s, w.me(), step)
			w.must(err)
			s = w.see()
			for _, m := range s.World.Members {
				if !dead[m.Node] || s.World.Generation == 1 {
					w.must(w.Ready(t.Context(), s.World, w.nodes[m.Node], rendezvous.Ready{}))
				}
				alive[m.Node] = !dead[m.Node]
			}
		case plan.Run:
			_, err := w.Run(t.Context(), s, txn.Starting{Step: step})
			w.must(err)
		case plan.Nothing:
			if s.World.Phase != rendezvous.Running || s.World.Count != 50 || len(s.World.Leavers) > 0 ||
				len(s.Nodes) != 50 {
				t.Fatalf("it stands still: %s, %d members, %d leavers, %d registered\n%s",
					s.World.Phase, s.World.Count, len(s.World.Leavers), len(s.Nodes), strings.Join(story, "\n"))
			}
			if s.World.Generation > 4 {
				t.Errorf("it took %d generations", s.World.Generation)
			}
			reported := map[string]int{}
			for _, e := range s.Events {
				if e.Kind == history.NodeLost {
					reported[e.Node]++
				}
			}
			for n := range dead {
				if reported[n] != 1 {
					t.Errorf("that %s was lost is reported %d times", n, reported[n])
				}
			}
			if len(reported) != len(dead) || s.World.Ledger.Lost != len(dead) {
				t.Errorf("%d are reported lost, the books say %d, and it were %d",
					len(reported), s.World.Ledger.Lost, len(dead))
			}
			return
		default:
			t.Fatalf("%s", stepText(step))
		}
	}
	t.Fatalf("no end:\n%s", strings.Join(story, "\n"))
}

// A proposal removes old records: of generations before the last one, and of nodes that are in no
// world any more.
func TestProposeCleansUp(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b", "c", "d")
	fill := func() { // everything that a generation leaves behind
		s := w.see()
		for _, m := range s.World.Members {
			w.must(w.Ready(t.Context(), s.World, w.nodes[m.Node], rendezvous.Ready{}))
			w.exit(m.Node)
		}
		w.put(w.Job.Failure(s.World.Generation), schema.Encode(rendezvous.Failure{Node: "a", Code: 1}))
		w.put(w.Job.Plan(s.World.Proposal, 0), []byte("part"))
		w.put(w.Job.Progress(), schema.Encode(rendezvous.Progress{}))
	}
	w.propose("a", "b")
	fill()
	w.must(suspects(w)())
	w.must(w.reg.Leave(t.Context(), w.nodes["b"], 1, membership.Terminated))
	w.propose("a", "c") // b was a member of the last World: the record that it left stays
	if _, ok := w.entries()[w.Job.Left("b")]; !ok {
		t.Error("generation 2: that b left is forgotten, and it may be a member of generation 1 yet")
	}
	if _, ok := w.entries()[w.Job.Suspect("b", "a")]; ok {
		t.Error("generation 2: a suspicion of b is kept, and it is in no world")
	}
	fill()
	w.propose("a", "d")
	fill()
	got := w.entries()
	for key, want := range map[string]bool{
		w.Job.Ready(1, "a"): false, w.Job.Ready(2, "a"): false, w.Job.Ready(3, "a"): true,
		w.Job.Exit(1, "a"): false, w.Job.Exit(2, "a"): true, w.Job.Exit(3, "a"): true,
		w.Job.Failure(1): false, w.Job.Failure(2): true, w.Job.Failure(3): true,
		w.Job.Left("b"): false, w.Job.Node("b"): false, w.Job.Node("c"): true,
	} {
		if _, ok := got[key]; ok != want {
			t.Errorf("generation 3: %s is there: %v, want %v", key, ok, want)
		}
	}
	if n := len(keysBelow(got, w.Job.AllPlans())); n != 2 {
		t.Errorf("generation 3: parts of %d proposals, want the last two", n)
	}
	w.propose("a", "c")
	if _, ok := w.entries()[w.Job.Progress()]; ok {
		t.Error("generation 4: the progress of the one before is shown as its own")
	}
	if v := string(w.entries()[w.Job.Fence()].Value); v != "u/4" {
		t.Errorf("the fence is %s", v)
	}
}

// The rest is written without the endpoints if the list is too long for a process's environment, or
// if a port is missing. A node that reads before it starts its workers gets the endpoints in that
// read, and never those of a World that does not run.
func TestEndpoints(t *testing.T) {
	for _, c := range []struct {
		host string
		want int
	}{{"10.0.0.1", 300}, {strings.Repeat("x", 200), 0}} {
		w := newStoredJob(t, memory.New().Client("test"), "x").create(300).crowd(300)
		s := w.see()
		var marks plan.Observed
		_, err := w.Propose(t.Context(), s, w.me(), w.step(s, &marks, nil).(plan.Propose))
		w.must(err)
		world := w.see().World
		for i, m := range world.Members {
			w.must(w.Ready(t.Context(), world, w.nodes[m.Node],
				rendezvous.Ready{Host: c.host, Ports: []int{1, 2, 1000 + i}}))
		}
		var cache follow.MemberCache
		reader := follow.Reader{Store: w.Store, Job: w.Job, Node: "n00007", Members: &cache}
		for range 2 {
			reader.ReadOwn(t.Context())
			if _, known := cache.Endpoints(world.Proposal); known {
				t.Error("the endpoints of a world that does not run are known")
			}
		}
		_, err = w.Run(t.Context(), w.see(), txn.Starting{Step: plan.Run{}})
		w.must(err)
		list, err := w.Endpoints(t.Context(), world)
		w.must(err)
		if len(list) != c.want || c.want > 0 && list[7] != c.host+":1007" {
			t.Errorf("%d endpoints, want %d: %.3q", len(list), c.want, list)
		}
		reader.ReadOwn(t.Context())
		if read, known := cache.Endpoints(world.Proposal); !known || !slices.Equal(read, list) {
			t.Errorf("a node that reads before it starts knows %d endpoints, want %d", len(read), len(list))
		}
		if _, known := cache.Endpoints("another"); known {
			t.Error("the endpoints of another world are known")
		}
	}
}

// A node that follows everything reads the list of a large world once, and not with every change.
func TestListIsReadOnce(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(300).crowd(300)
	s := w.see()
	var marks plan.Observed
	_, err := w.Propose(t.Context(), s, w.me(), w.step(s, &marks, nil).(plan.Propose))
	w.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := follow.Reader{Store: w.Store, Job: w.Job, Node: "n00007"}.Follow(ctx, follow.ScopeAll)
	first := (<-found).World
	w.must(w.Ready(t.Context(), first, w.nodes["n00007"], rendezvous.Ready{}))
	if next := (<-found).World; &next.Members[0] != &first.Members[0] {
		t.Error("it is read again")
	}
}

// A World is not read if some of its members cannot be read.
func TestTornMembers(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(101).crowd(101)
	s := w.see()
	var marks plan.Observed
	_, err := w.Propose(t.Context(), s, w.me(), w.step(s, &marks, nil).(plan.Propose))
	w.must(err)
	part := w.Job.Plan(w.see().World.Proposal, 0)
	whole := string(w.entries()[part].Value)
	lines := strings.SplitAfter(whole, "\n")
	for name, torn := range map[string]string{
		"":                      "",
		"a line short":          strings.Join(lines[:100], ""),
		"the end of a line":     whole[:len(whole)-1],
		"a member of one word":  strings.Join(lines[:100], "") + "n00100\n",
		"a member of two words": strings.Join(lines[:100], "") + "n00100 n00100-1\n",
		"no incarnation":        strings.Join(lines[:100], "") + "n00100  127.0.0.1:1\n",
	} {
		_, err := w.Store.Txn(t.Context(), store.Txn{Then: []store.Write{store.Put(part, []byte(torn))}})
		w.must(err)
		if s, err := rendezvous.Read(t.Context(), w.Store, w.Job); err == nil {
			t.Errorf("%q: a world of %d members was read", name, len(s.World.Members))
		}
	}
}

// A node that knows the members of a large World derives those of the next one from its changes,
// and reads no list. A node that knows another World reads the list. Both get the same members.
func TestWorldsByTheirChanges(t *testing.T) {
	const n = 300
	tally := &memory.Tally{}
	w := newStoredJob(t, memory.New().Client("test"), "x").create(n).crowd(n)
	counted := memory.Count(w.Store, tally)
	next := func(members []membership.Ref, leavers ...membership.Ref) *rendezvous.World {
		t.Helper()
		s := w.see()
		p := w.next(s)
		p.World.Members, p.World.Count, p.World.Leavers = members, len(members), leavers
		_, err := w.Propose(t.Context(), s, w.me(), p)
		w.must(err)
		return w.see().World
	}
	var all []membership.Ref
	for _, m := range w.see().Nodes {
		all = append(all, m.Ref)
	}
	first := all[:250]
	hole := slices.Clone(first[:249])
	hole[100] = first[249]
	grown := append(slices.Clone(hole), all[260:262]...)
	for _, c := range []struct {
		name    string
		to      []membership.Ref
		leavers []membership.Ref
		lists   int64 // read by a node that knows the world before
	}{
		{"the first", first, nil, 1}, {"the last one takes the place of a lost one", hole, nil, 0},
		{"no member changes", hole, nil, 0}, {"two more", grown, nil, 0}, {"one less", grown[:250], nil, 0},
		{"one leaves", grown[:249], grown[249:250], 1}, {"the one after", grown[:248], nil, 0},
		{"most change", slices.Concat(grown[:100], all[101:249]), nil, 1},
	} {
		cache := &follow.MemberCache{}
		reader := follow.Reader{Store: counted, Job: w.Job, Node: "n00007", Members: cache}
		if c.name != "the first" {
			w.must(reader.ReadOwn(t.Context()).Err)
		}
		stale := follow.Reader{Store: counted, Job: w.Job, Node: "n00007", Members: &follow.MemberCache{}}
		world := next(c.to, c.leavers...)
		before := tally.Gets.Load()
		u := reader.ReadOwn(t.Context())
		w.must(u.Err)
		if lists := tally.Gets.Load() - before - 1; lists != c.lists {
			t.Errorf("%s: %d lists were read, want %d", c.name, lists, c.lists)
		}
		for reader, got := range map[string]*rendezvous.World{"one that knows the world before": u.World,
			"one that knows none": stale.ReadOwn(t.Context()).World} {
			if !slices.Equal(got.Members, c.to) || !slices.Equal(got.Leavers, c.leavers) ||
				got.Generation != world.Generation {
				t.Errorf("%s: %s sees another world", c.name, reader)
			}
		}
	}
}

// The changes of one World are not used by a node that knows the members of another one.
func TestChangesOfAnotherWorldAreNotUsed(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(200).crowd(200)
	reader := follow.Reader{Store: w.Store, Job: w.Job, Node: "n00007", Members: &follow.MemberCache{}}
	for k := range 5 {
		s := w.see()
		p := w.next(s)
		for i, m := range s.Nodes[:150] {
			if i < k {
				m = s.Nodes[150+i]
			}
			p.World.Members = append(p.World.Members, m.Ref)
		}
		p.World.Count = len(p.World.Members)
		_, err := w.Propose(t.Context(), s, w.me(), p)
		w.must(err)
		if k%2 == 0 { // it misses every other one
			if got := reader.ReadOwn(t.Context()).World; !slices.Equal(got.Members, p.World.Members) {
				t.Errorf("generation %d: a node that missed the one before sees other members",
					got.Generation)
			}
		}
	}
}
