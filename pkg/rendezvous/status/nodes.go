package status

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// Node is one node of a job.
type Node struct {
	Node        string             `json:"node"`
	State       NodeState          `json:"state"`
	Address     *string            `json:"address"`
	Workers     *int               `json:"workers"`
	Incarnation *string            `json:"incarnation"`
	Generation  *schema.Generation `json:"generation"` // of the World of which it is or was a member
	Since       Timestamp          `json:"since"`
	Why         *string            `json:"why"`
	// OtherProgram: the node runs another program than the job was made with.
	OtherProgram bool `json:"other_program"`
}

// NodeState is the state of a node.
type NodeState string

const (
	NodeJoining     NodeState = "joining"
	NodeReady       NodeState = "ready"
	NodeRunning     NodeState = "running"
	NodeWaiting     NodeState = "waiting"
	NodeSpare       NodeState = "spare"
	NodeSuspect     NodeState = "suspect"
	NodeQuarantined NodeState = "quarantined"
	NodeDraining    NodeState = "draining"
	NodeDrained     NodeState = "drained"
	NodeLost        NodeState = "lost"
	NodeLeft        NodeState = "left"
)

// listed is how long a node that was lost or left stays in the list.
const listed = 10 * time.Minute

// nodes returns the members by rank, then other registered nodes by name, then those that were lost
// or left.
func (x *explainer) nodes(state State) []Node {
	s := x.s
	list := []Node{}
	shown := map[string]bool{}
	if w := x.w; w != nil {
		for i, m := range w.Members {
			n := s.Node(m.Node)
			switch {
			case shown[m.Node]:
			case n != nil && n.Incarnation == m.Incarnation:
				list, shown[m.Node] = append(list, x.member(n, &x.v.Members[i], state)), true
			case n == nil && !w.Phase.Ended() && !x.lostBy(m.Node) && x.v.Members[i].State == verdict.Absent:
				list, shown[m.Node] = append(list, x.absent(m)), true
			}
		}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; !shown[n.Node] {
			list, shown[n.Node] = append(list, x.other(n)), true
		}
	}
	for i := range list {
		if n := s.Node(list[i].Node); n != nil && s.OtherProgram(n) {
			list[i].OtherProgram = true
			if list[i].Why == nil {
				list[i].Why = new("it runs another program than the job")
			}
		}
	}
	sayVersions(s, list)
	var past []Node
	for node, w := range x.events {
		if shown[node] || (w.kind != history.NodeLost && w.kind != history.NodeLeft) ||
			x.now.Sub(w.at) > listed {
			continue
		}
		past = append(past, w.withJob(x.s.World).status(node))
	}
	sort.Slice(past, func(i, k int) bool { return past[i].Node < past[k].Node })
	return append(list, past...)
}

// sayVersions says which nodes have agents of another version than the first one has.
func sayVersions(s *rendezvous.Snapshot, list []Node) {
	var first *membership.Node
	for i := range list {
		n := s.Node(list[i].Node)
		switch {
		case n == nil || n.Version == "":
		case first == nil:
			first = n
		case n.Version != first.Version:
			text := fmt.Sprintf("its elastic is %s, that of %s is %s", n.Version, first.Node, first.Version)
			if w := list[i].Why; w != nil {
				text = *w + "; " + text
			}
			list[i].Why = &text
		}
	}
}

func nodeStatus(n *membership.Node, state NodeState, since time.Time) Node {
	return Node{Node: n.Node, State: state, Address: new(n.Address), Workers: new(n.Slots),
		Incarnation: new(n.Incarnation.Short()), Since: Timestamp{since}}
}

// member returns the status of a registered member of the newest World.
func (x *explainer) member(n *membership.Node, seen *verdict.Member, state State) Node {
	w := x.w
	st := nodeStatus(n, NodeWaiting, w.Time)
	st.Generation = new(w.Generation)
	if n.Since.After(st.Since.Time) {
		st.Since = Timestamp{n.Since}
	}
	switch {
	case seen.State == verdict.Suspect && slices.Contains(w.ReportedLost, n.Incarnation) && x.lostBy(n.Node):
		return x.events[n.Node].status(n.Node) // its key ends with its lease, or with the next generation
	case seen.State == verdict.Suspect:
		st.State, st.Why = NodeSuspect, new(seen.Why)
		if by := x.suspectedBy(n); by != "" {
			st.Why = new(by)
		}
	case slices.Contains(x.s.Wish.Drain, n.Node):
		st.State = NodeDraining
	case w.Phase == rendezvous.Forming && x.isReady(n):
		st.State = NodeReady
	case state == StateRunning || state == StateFinishing:
		st.State = NodeRunning
	}
	return st
}

// absent returns the status of a member whose registration is gone and that was not reported lost.
// It may register again.
func (x *explainer) absent(m membership.Ref) Node {
	return Node{Node: m.Node, State: NodeSuspect, Address: new(m.Address), Workers: new(x.w.Slots),
		Incarnation: new(m.Incarnation.Short()), Generation: new(x.w.Generation), Why: new("lease expired")}
}

// other returns the status of a registered node that is no member of the newest World.
func (x *explainer) other(n *membership.Node) Node {
	st := nodeStatus(n, NodeSpare, n.Since)
	switch {
	case slices.Contains(x.s.Wish.Drain, n.Node):
		st.State = NodeDrained
	case n.Doubt != "" && x.keptOut(n.Node) != nil:
		if st.Why = new(n.Doubt); n.Drained {
			st.State = NodeDrained
		}
	case x.w == nil || x.w.Generation == 0:
		st.State = NodeJoining
	case x.keptOut(n.Node) != nil:
		k := x.keptOut(n.Node)
		st.State, st.Why = NodeQuarantined, new(k.Text)
		if k.For > 0 {
			st.Why = new(fmt.Sprintf("%s; for %s", k.Text, k.For))
		}
		if !k.Time.IsZero() {
			st.Since = Timestamp{k.Time}
		}
	case x.w.Leaver(n.Ref) && x.w.Phase == rendezvous.Forming && !x.isReady(n):
		st.State = NodeWaiting
	case n.Warming:
		st.State, st.Why = NodeJoining, new(x.unproved(n))
	}
	return st
}

// unproved says why no World has a node that is registered and not ready for one.
func (x *explainer) unproved(n *membership.Node) string {
	for _, d := range x.s.Doing {
		if d.Node == n.Node && d.Text != "" {
			return d.Text
		}
	}
	return "its workers start"
}

// keptOut returns the quarantine of node, or nil.
func (x *explainer) keptOut(node string) *plan.KeptOut {
	for _, k := range plan.Quarantined(x.s) {
		if k.Node == node {
			return &k
		}
	}
	return nil
}

func (x *explainer) isReady(n *membership.Node) bool {
	r, ok := x.s.Ready[n.Node]
	return ok && r.Incarnation == n.Incarnation
}

// suspectedBy lists the nodes that suspect n, with their signs.
func (x *explainer) suspectedBy(n *membership.Node) string {
	var by []string
	for _, s := range x.s.Suspects {
		if s.Node == n.Node && s.Incarnation == n.Incarnation {
			by = append(by, s.What()+", says "+s.By)
		}
	}
	return strings.Join(by, "; ")
}

// lostBy reports whether the newest event about node says that it was lost or left.
func (x *explainer) lostBy(node string) bool {
	k := x.events[node].kind
	return k == history.NodeLost || k == history.NodeLeft
}

// lastEvent is the newest event about a node, with fields of the event that it joined.
type lastEvent struct {
	kind        history.Kind
	at          time.Time
	why         string
	generation  schema.Generation
	address     *string
	workers     *int
	incarnation *string
}

func (w lastEvent) status(node string) Node {
	st := Node{Node: node, State: NodeLost, Address: w.address, Workers: w.workers,
		Incarnation: w.incarnation, Since: Timestamp{w.at}, Why: new(w.why)}
	if w.kind == history.NodeLeft {
		st.State = NodeLeft
	}
	if w.generation > 0 {
		st.Generation = new(w.generation)
	}
	return st
}

// withJob adds how the job ended, if the node left because of that.
func (w lastEvent) withJob(world *rendezvous.World) lastEvent {
	if w.kind == history.NodeLeft && w.why == string(membership.Finished) && world != nil &&
		(world.Phase == rendezvous.Stopped || world.Phase == rendezvous.Failed) {
		w.why = fmt.Sprintf("the job %s", world.Phase)
		if world.Phase == rendezvous.Stopped {
			w.why = "the job was stopped"
		}
	}
	return w
}

// lastEvents returns the newest event about each node.
func lastEvents(events []history.Event) map[string]lastEvent {
	words := map[string]lastEvent{}
	for _, e := range events {
		w := words[e.Node]
		switch e.Kind {
		case history.NodeJoined:
			w = lastEvent{address: history.Field[*string](&e, "address"), workers: history.Field[*int](&e, "workers"),
				incarnation: history.Field[*string](&e, "incarnation")}
		case history.NodeLost, history.NodeLeft:
			w.why = ""
			if reason := history.Field[*string](&e, "reason"); reason != nil {
				w.why = strings.ReplaceAll(*reason, "-", " ")
			}
			w.generation = e.Generation
		default:
			continue
		}
		w.kind, w.at = e.Kind, e.Time
		words[e.Node] = w
	}
	return words
}
