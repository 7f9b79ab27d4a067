package overview_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// story makes the events of a job as they are read from the store.
type story struct {
	t *testing.T
	s rendezvous.Snapshot
}

func aStory(t *testing.T) *story {
	return &story{t, rendezvous.Snapshot{Whole: true, Job: &rendezvous.Job{Name: "x", UID: "u", Attempt: 1,
		Slots: 1, Limits: rendezvous.Limits{Min: 1, Max: 4}, Time: noon}, Wish: rendezvous.Wish{NP: 2}}}
}

func (p *story) at(second int, g schema.Generation, kind history.Kind, node string, f history.Fields) {
	p.t.Helper()
	e := history.Event{Time: noon.Add(time.Duration(second) * time.Second), Generation: g, Kind: kind,
		Node: node, Text: strings.TrimSpace(string(kind) + " " + node), Fields: f}
	b, err := json.Marshal(e)
	if err != nil {
		p.t.Fatal(err)
	}
	var read history.Event
	if err := json.Unmarshal(b, &read); err != nil {
		p.t.Fatal(err)
	}
	read.Rev = int64(len(p.s.Events) + 1)
	p.s.Events = append(p.s.Events, read)
}

// world proposes a world at second, which runs a second later.
func (p *story) world(second int, g schema.Generation, cause rendezvous.Cause, f history.Fields, nodes ...string) {
	var seats []rendezvous.Seat
	var members []membership.Ref
	for i, n := range nodes {
		seats = append(seats, rendezvous.Seat{NodeRank: i, Node: n, Ranks: []int{i}})
		members = append(members, membership.Ref{Node: n, Incarnation: membership.Incarnation("i" + n)})
	}
	fields := history.Fields{"cause": cause, "world_size": len(nodes), "world": seats}
	for k, v := range f {
		fields[k] = v
	}
	p.at(second, g, history.WorldProposed, "", fields)
	p.at(second+1, g, history.WorldRunning, "", history.Fields{"idle_ms": 700})
	p.at(second+1, g, history.Started, nodes[0], nil)
	p.s.World = &rendezvous.World{Attempt: 1, Generation: g, Phase: rendezvous.Running, Members: members,
		Count: len(nodes), Slots: 1, Time: noon.Add(time.Duration(second+1) * time.Second)}
	p.s.Nodes = nil
	for _, m := range members {
		p.s.Nodes = append(p.s.Nodes, membership.Node{Ref: m, Since: noon})
	}
}

// bars writes the bars of a node in seconds, like "waiting 0-1, training 2-".
func bars(o overview.Job, node string) string {
	for _, row := range o.Timeline.Rows {
		if row.Nodes[0] != node {
			continue
		}
		var all []string
		for _, b := range row.Bars {
			to := ""
			if b.To > 0 {
				to = fmt.Sprint((int64(b.To) - noon.UnixMilli()) / 1000)
			}
			all = append(all, fmt.Sprintf("%s %d-%s", b.Phase, (int64(b.From)-noon.UnixMilli())/1000, to))
		}
		return strings.Join(all, ", ")
	}
	return ""
}

func (p *story) seen(second int) overview.Job {
	return overview.Of(overview.Source{Snapshot: &p.s, Now: noon.Add(time.Duration(second) * time.Second)})
}

// Node b is lost at second 20, two of twelve steps after a save: the last sixth of the time of both is made
// again.
func TestTimelineOfALoss(t *testing.T) {
	p := aStory(t)
	p.at(0, 0, history.NodeJoined, "a", nil)
	p.at(0, 0, history.NodeJoined, "b", nil)
	p.world(2, 1, rendezvous.CauseFirst, history.Fields{"resume_step": 0}, "a", "b")
	p.at(15, 1, history.Committed, "", history.Fields{"number": 1, "step": 10, "copies": 2})
	p.at(19, 1, history.NodeSuspected, "b", nil)
	p.at(20, 1, history.NodeLost, "b", history.Fields{"reason": "agent-gone"})
	p.at(20, 1, history.WorkerFailed, "a", history.Fields{"collateral": true})
	p.world(20, 2, rendezvous.CauseNodeLost,
		history.Fields{"resume_step": 10, "last_step": 12, "checkpoint": 1}, "a")
	o := p.seen(30)
	for node, want := range map[string]string{
		"a": "waiting 0-2, starting 2-3, training 3-17, redone 17-20, starting 20-21, training 21-",
		"b": "waiting 0-2, starting 2-3, training 3-17, redone 17-19, suspect 19-20",
	} {
		if got := bars(o, node); got != want {
			t.Errorf("node %s: %s\nwant %s", node, got, want)
		}
	}
	g := o.Timeline.Generations
	if len(g) != 2 || g[1].Text != "node_lost b" || g[0].Lost != 2 || *g[1].IdleMS != 700 {
		t.Errorf("generations: %+v", g)
	}
	if o.Timeline.To != 0 {
		t.Errorf("the job runs, and its timeline ends at %d", o.Timeline.To)
	}
}

// Workers that reported their last step at 13 hung until 63. The next ones report nothing since 75.
func TestTimelineOfAHang(t *testing.T) {
	p := aStory(t)
	p.at(0, 0, history.NodeJoined, "a", nil)
	p.world(2, 1, rendezvous.CauseFirst, history.Fields{"resume_step": 0}, "a")
	p.at(63, 1, history.WorkerFailed, "a", history.Fields{"hang": true})
	p.world(63, 2, rendezvous.CauseWorkerFailed, history.Fields{"resume_step": 5, "last_step": 10,
		"last_told": noon.Add(13 * time.Second).Format(history.TimeFormat), "checkpoint": 1}, "a")
	p.s.Progress = &rendezvous.Progress{Generation: 2, Step: new(int64(20)), Time: noon.Add(75 * time.Second)}
	if got, want := bars(p.seen(200), "a"), "waiting 0-2, starting 2-3, training 3-8, redone 8-13, "+
		"hung 13-63, starting 63-64, training 64-75, hung 75-"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A planned change that saves makes no step again.
func TestTimelineOfAScale(t *testing.T) {
	p := aStory(t)
	p.at(0, 0, history.NodeJoined, "a", nil)
	p.world(2, 1, rendezvous.CauseFirst, history.Fields{"resume_step": 0}, "a")
	p.at(5, 1, history.NodeJoined, "b", nil)
	p.at(6, 1, history.WishChanged, "", history.Fields{"np": 2})
	p.at(6, 1, history.WaitEntered, "", history.Fields{"why_code": "saving"})
	p.at(7, 1, history.Committed, "", history.Fields{"number": 1, "copies": 1})
	p.world(8, 2, rendezvous.CauseScale, history.Fields{"checkpoint": 1}, "a", "b")
	o := p.seen(20)
	if got, want := bars(o, "a"), "waiting 0-2, starting 2-3, training 3-6, saving 6-8, starting 8-9, training 9-"; got != want {
		t.Errorf("a: %s\nwant %s", got, want)
	}
	if got, want := bars(o, "b"), "spare 5-8, starting 8-9, training 9-"; got != want {
		t.Errorf("b: %s\nwant %s", got, want)
	}
	if o.Timeline.Generations[1].Text != "wish_changed" {
		t.Errorf("cause: %q", o.Timeline.Generations[1].Text)
	}
}

// The end of a bar agrees with the status, also where no event says so yet.
func TestTimelineAgreesWithTheStatus(t *testing.T) {
	p := aStory(t)
	p.at(0, 0, history.NodeJoined, "a", nil)
	p.at(0, 0, history.NodeJoined, "b", nil)
	p.world(2, 1, rendezvous.CauseFirst, nil, "a", "b")
	p.s.Nodes = p.s.Nodes[:1] // the lease of b ran out, and nobody has said so
	o := p.seen(30)
	if got := bars(o, "b"); !strings.HasSuffix(got, "suspect 3-") {
		t.Errorf("b: %s; status: %+v", got, o.Status.Nodes)
	}
}

// Nodes of a large job that did the same share a row; one that did not has its own.
func TestTimelineOfManyNodes(t *testing.T) {
	p := aStory(t)
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("n%03d", i))
		p.at(0, 0, history.NodeJoined, names[i], nil)
	}
	p.world(2, 1, rendezvous.CauseFirst, nil, names...)
	p.at(60, 1, history.NodeLost, "n500", nil)
	p.world(60, 2, rendezvous.CauseNodeLost, nil, append(append([]string{}, names[:500]...), names[501:]...)...)
	o := p.seen(300)
	if n := len(o.Timeline.Rows); n != 2 {
		t.Errorf("%d rows, want one for 999 nodes and one for the lost node", n)
	}
}

// What needs attention comes first, and the command is one that helps.
func TestWorstFirst(t *testing.T) {
	all := []overview.Summary{{Job: "e", Level: overview.Over}, {Job: "a", Level: overview.Good},
		{Job: "d", Level: overview.Warn}, {Job: "c", Level: overview.Bad}, {Job: "b", Level: overview.Bad}}
	overview.WorstFirst(all)
	got := ""
	for _, s := range all {
		got += string(s.Job)
	}
	if got != "bcdae" {
		t.Errorf("order %s", got)
	}
	p := aStory(t)
	p.at(0, 0, history.NodeJoined, "a", nil)
	p.world(2, 1, rendezvous.CauseFirst, nil, "a", "b")
	p.s.World.Phase, p.s.World.Outcome = rendezvous.Failed, &rendezvous.Outcome{Message: "it failed"}
	sum := p.seen(10).Summary
	if sum.Level != overview.Bad || sum.Command != "elastic logs x --first-failure" {
		t.Errorf("%+v", sum)
	}
}
