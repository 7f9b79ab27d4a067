package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// One node explains all doubts, until nodes suspect each other that were all in doubt before. From
// then on silence does not count for a window.
func TestANewDoubtMakesACrowd(t *testing.T) {
	now := time.Now()
	d := newDetection(verdict.DefaultTimeouts(0))
	var members []membership.Ref
	var nodes []membership.Node
	for _, name := range []string{"a", "b", "c"} {
		r := membership.Ref{Node: name, Incarnation: membership.Incarnation(name)}
		members, nodes = append(members, r), append(nodes, membership.Node{Ref: r})
	}
	var suspects []membership.Suspicion
	for _, x := range []struct {
		by, about string
		void      bool
	}{{"c", "a", false}, {"c", "b", false}, {"a", "c", false}, {"b", "c", false}, {"a", "b", true}} {
		suspects = append(suspects,
			membership.Suspicion{Node: x.about, Incarnation: membership.Incarnation(x.about),
				By: x.by, Watcher: membership.Incarnation(x.by)})
		d.View = verdict.Judge(verdict.Records{Members: members, Nodes: nodes, Suspects: suspects},
			d.evidence, d.limits, now)
		d.noteCrowd(len(members), now)
		if got := d.evidence.Void.After(now); got != x.void {
			t.Errorf("after %s suspected %s silence is void: %v, want %v", x.by, x.about, got, x.void)
		}
	}
}

// A second watcher suspects a silent node while the node is dialled. Once the dial had no answer,
// the watcher is asked, once. Then the node is gone.
func TestAWatcherThatAccusesLaterIsAsked(t *testing.T) {
	now := time.Now()
	d, out := newDetection(verdict.DefaultTimeouts(0)), message.NewOutbox()
	ref := func(name string) membership.Ref {
		return membership.Ref{Node: name, Incarnation: membership.Incarnation(name)}
	}
	snap := &rendezvous.Snapshot{Whole: true, World: &rendezvous.World{}}
	for _, name := range []string{"a", "b", "c", "d"} {
		snap.World.Members = append(snap.World.Members, ref(name))
		snap.Nodes = append(snap.Nodes, membership.Node{Ref: ref(name)})
	}
	accuse := func(by string) {
		snap.Suspects = append(snap.Suspects, membership.Suspicion{Node: "b", Incarnation: "b", By: by,
			Watcher: membership.Incarnation(by)})
	}
	step := func(after time.Duration, want ...message.Action) {
		t.Helper()
		now = now.Add(after)
		f := &Sight{Now: now, Self: membership.Node{Ref: ref("a")}, Joined: true, Registered: true,
			Snapshot: snap, World: snap.World}
		out.Begin(now)
		d.Judge(f)
		d.Probe(f, out)
		got := slices.DeleteFunc(slices.Clone(out.Actions()), func(a message.Action) bool {
			_, wake := a.(message.Wake)
			p, probe := a.(message.Probe)
			return wake || probe && p.About.Node != "b" // those that b watched are asked as well
		})
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s", diff)
		}
	}
	accuse("c")
	step(0, message.Probe{About: ref("b"), Watchers: []membership.Ref{ref("c")}, Silent: true})
	accuse("d")
	step(20 * time.Millisecond) // the dial is under way
	d.Apply(message.Probed{About: ref("b"), Holds: []string{"c"}}, now, out)
	step(230*time.Millisecond, message.AskWatchers{About: ref("b"), Watchers: []membership.Ref{ref("d")}})
	if m := d.View.Find(ref("b")); m.State != verdict.Suspect {
		t.Errorf("with one watcher asked b is %s", m.State)
	}
	d.Apply(message.WatchersAsked{About: ref("b"), Holds: []string{"d"}}, now, out)
	step(5 * time.Millisecond)
	if m := d.View.Find(ref("b")); m.State != verdict.Gone {
		t.Errorf("with both asked b is %s", m.State)
	}
	d.Apply(message.Probed{About: ref("b")}, now, out)
	step(5 * time.Millisecond)
	if m := d.View.Find(ref("b")); m.State != verdict.Suspect {
		t.Errorf("when neither holds its suspicion any more b is %s", m.State)
	}
}
