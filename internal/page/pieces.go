package page

import (
	"slices"

	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/pkg/history"
)

// piecesOf returns the parts of an overview. A report of progress changes only small ones, because
// each viewer is sent what changed every second.
func piecesOf(o overview.Job) map[string]any {
	nodes, world := o.Status.Nodes, o.Status.World
	o.Status.Nodes, o.Status.World = nil, nil
	return map[string]any{"status": o.Status, "nodes": nodes, "world": world, "account": o.Account,
		"timeline": steady(o.Timeline), "checkpoints": o.Checkpoints, "goodput": o.Goodput,
		"failures": o.Failures, "curve": o.Curve, "events": plain(o.Events)}
}

// steady leaves out the newest step of a generation that runs: the summary has it.
func steady(t overview.Timeline) overview.Timeline {
	if n := len(t.Generations); n > 0 && t.Generations[n-1].Ended == 0 {
		t.Generations = slices.Clone(t.Generations)
		t.Generations[n-1].Reached = nil
	}
	return t
}

// plain leaves out the fields of events: of a large job each world lists a thousand nodes.
func plain(all []history.Event) []history.Event {
	all = slices.Clone(all)
	for i := range all {
		all[i].Fields = nil
	}
	return all
}
