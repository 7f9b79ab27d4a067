package machine

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
)

// Judge derives the verdict on each node from the snapshot and the agent's own observations.
func (d *Detection) Judge(f *Sight) {
	snap := f.Snapshot
	if !f.Joined || !snap.Whole {
		d.View = verdict.View{}
		return
	}
	refs := listedRefs(f)
	absent := make(map[membership.Incarnation]time.Time, len(d.evidence.Absent))
	for _, r := range refs {
		if n := snap.Node(r.Node); n == nil || n.Incarnation != r.Incarnation {
			since, known := d.evidence.Absent[r.Incarnation]
			if !known {
				since = f.Now
			}
			absent[r.Incarnation] = since
		}
		// A suspicion of this agent counts once it is in the store. Otherwise this agent would hold
		// a World for a node that all others find alive.
		if _, ok := d.suspected[r.Incarnation]; ok {
			d.noteHolds(r.Node, f.Now, f.Self.Node)
		}
	}
	d.evidence.Absent, d.evidence.Self = absent, f.Self.Incarnation
	d.evidence.Isolated = d.isolated(f)
	records := verdict.Records{Members: refs, Ring: ringSize(f), Nodes: snap.Nodes,
		Left: snap.Left, Suspects: snap.Suspects}
	d.View = verdict.Judge(records, d.evidence, d.limits, f.Now)
	d.noteCrowd(len(refs), f.Now)
}

// noteCrowd makes silence not count for a window when many nodes come into doubt at once. It does
// so once: doubts that remain after the window count, even if the verdict changes while these nodes
// are dialled again.
func (d *Detection) noteCrowd(members int, now time.Time) {
	crowd := verdict.ManyInDoubt(d.View, members)
	doubts, news := map[verdict.Doubt]bool{}, false
	for _, s := range d.View.Members {
		for _, x := range s.Doubts() {
			doubts[x] = true
			news = news || s.State != verdict.Gone && !d.doubts[x]
		}
	}
	if crowd && !d.crowded && news && d.evidence.Void.Before(now) {
		d.evidence.Void = now.Add(d.limits.Window)
	}
	d.crowded, d.doubts = crowd, doubts
}

// listedRefs returns the members and leavers of the World in the snapshot.
func listedRefs(f *Sight) []membership.Ref {
	w := f.Snapshot.World
	if w == nil {
		return nil
	}
	return append(w.Members[:len(w.Members):len(w.Members)], w.Leavers...)
}

// ringSize is the number of members, of the World in the snapshot, that watch each other.
func ringSize(f *Sight) int {
	if w := f.Snapshot.World; w != nil && !w.Phase.Ended() {
		return len(w.Members)
	}
	return 0
}

// silence counts the nodes that this agent dialled lately without an answer, and reports whether
// any other node answered.
func (d *Detection) silence(f *Sight) (silent int, answered bool) {
	for inc, a := range d.evidence.Answers {
		if inc == f.Self.Incarnation || f.Now.Sub(a.At) > d.limits.Fresh {
			continue
		}
		if a.Kind == membership.NoAnswer {
			silent++
		} else {
			answered = true
		}
	}
	return silent, answered
}

// isolated reports whether several nodes were dialled and none answered. This node may then be cut
// off itself, and silence proves nothing.
func (d *Detection) isolated(f *Sight) bool {
	silent, answered := d.silence(f)
	return silent >= 2 && !answered
}

// MaxWitnesses is the number of nodes that are asked at most whether they reach another one.
const MaxWitnesses = 3

// witnesses returns some nodes that are not in doubt, to be dialled while others are silent.
// Otherwise, after the loss of two nodes, all remaining nodes would take themselves for isolated.
func (d *Detection) witnesses(f *Sight) (refs []membership.Ref) {
	if silent, _ := d.silence(f); silent < 2 {
		return nil
	}
	nodes := f.Snapshot.Nodes
	for i := range nodes {
		// other ones each second, because some may be lost as well
		r := nodes[(i+int(f.Now.Unix()))%len(nodes)].Ref
		member := d.View.Find(r)
		alive := member == nil || member.State == verdict.Alive
		if alive && r.Incarnation != f.Self.Incarnation && len(refs) < MaxWitnesses {
			refs = append(refs, r)
		}
	}
	return refs
}

// probeEvery is the shortest time between two dials of a node.
const probeEvery = 500 * time.Millisecond

// probe is the newest dial of a node: when it began, and which watchers were asked with it and
// since.
type probe struct {
	at    time.Time
	asked []membership.Ref
}

// Probe dials the nodes in doubt and the witnesses, and asks the watchers, because a verdict needs
// recent answers. The dial of an unregistered node has a longer deadline: beside the expired lease
// it may be the only evidence. A watcher that began to suspect the node after the dial is asked
// once the dial has its answer.
func (d *Detection) Probe(f *Sight, out *message.Outbox) {
	ask := append(d.View.Ask[:len(d.View.Ask):len(d.View.Ask)], d.witnesses(f)...)
	for _, r := range ask {
		inc, watchers := r.Incarnation, watchersOf(f, r)
		last, ok := d.probed[inc]
		if !ok || f.Now.Sub(last.at) >= probeEvery {
			judged := d.View.Find(r)
			silent := judged != nil && judged.State == verdict.Suspect
			if out.RequestAbout(message.KindProbe, inc,
				message.Probe{About: r, Watchers: watchers, Silent: silent}) {
				d.probed[inc] = probe{f.Now, watchers}
			}
			continue
		}
		out.Wake(last.at.Add(probeEvery))
		late := slices.DeleteFunc(watchers,
			func(w membership.Ref) bool { return slices.ContainsFunc(last.asked, w.Same) })
		if len(late) > 0 &&
			out.RequestAbout(message.KindProbe, inc, message.AskWatchers{About: r, Watchers: late}) {
			d.probed[inc] = probe{last.at, append(slices.Clone(last.asked), late...)}
		}
	}
}

// watchersOf returns the other registered nodes that suspect r in the store.
func watchersOf(f *Sight, r membership.Ref) (refs []membership.Ref) {
	snap := f.Snapshot
	for _, s := range snap.Suspects {
		if s.Node != r.Node || s.Incarnation != r.Incarnation || s.By == f.Self.Node {
			continue
		}
		if n := snap.Node(s.By); n != nil && n.Incarnation == s.Watcher {
			refs = append(refs, n.Ref)
		}
	}
	return refs
}
