package txn

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// incident is one of a machine, as a step shows it.
type incident struct {
	machine machines.Machine
	machines.Incident
}

// incidents returns what a step says of machines. A node that is no longer registered is skipped,
// because only its registration names its machine.
func incidents(seen *rendezvous.Snapshot, step plan.Step, now time.Time) (all []incident) {
	add := func(node string, k machines.Kind, text string) {
		n := seen.Node(node)
		if n == nil || n.MachineID == "" {
			return
		}
		all = append(all, incident{machines.Machine{ID: n.MachineID, Hostname: n.Hostname},
			machines.Incident{Node: node, Job: seen.Job.Name, UID: seen.Job.UID, Kind: k, Text: text, Time: now}})
	}
	var ledger rendezvous.Ledger
	var failure *plan.ReportedFailure
	switch s := step.(type) {
	case plan.Propose:
		ledger, failure = s.World.Ledger, s.Failure
		for _, x := range s.Lost {
			add(x.Node, machines.Lost, cmp.Or(x.Why, x.Reason))
		}
	case plan.Hold:
		ledger, failure = s.Ledger, s.Failure
		for _, x := range s.Lost {
			add(x.Node, machines.Lost, cmp.Or(x.Why, x.Reason))
		}
	case plan.End:
		ledger, failure = s.Ledger, s.Failure
	default:
		return nil
	}
	if f := failure; f != nil && !f.Collateral && f.OfNode() {
		kind := machines.Failed
		if f.Hang {
			kind = machines.Hung
		}
		add(f.Node, kind, f.Failure.String())
	}
	for _, r := range newlyOut(seen, ledger) {
		add(r.Node, machines.LeftOut, r.Text)
	}
	return all
}

// newlyOut returns the records of l that put a node into quarantine, and that seen does not have.
func newlyOut(seen *rendezvous.Snapshot, l rendezvous.Ledger) (out []rendezvous.NodeRecord) {
	if seen.World == nil {
		return nil
	}
	for _, r := range l.Nodes {
		same := func(x rendezvous.NodeRecord) bool {
			return x.Node == r.Node && x.Since == r.Since && x.Quarantine == r.Quarantine
		}
		if r.Quarantine > 0 && !slices.ContainsFunc(seen.World.Ledger.Nodes, same) {
			out = append(out, r)
		}
	}
	return out
}

// NoteOf writes what was found of a node that is registered into the record of its machine.
func (r Requests) NoteOf(ctx context.Context, node string, i machines.Incident) error {
	read, err := r.Store.Get(ctx, r.Job.Node(node), "")
	if err != nil || read.One() == nil {
		return err
	}
	n, err := schema.Decode[membership.Node](read.One())
	if err != nil {
		return err
	}
	i.Node, i.Job = node, r.Job
	return machines.Note(ctx, r.Store, machines.Machine{ID: n.MachineID, Hostname: n.Hostname},
		[]machines.Incident{i})
}

// NoteIncidents writes what a step that was taken says of machines into the records that outlive the
// job. No step depends on them, so a user of the store who may not write them loses nothing else.
func (r Requests) NoteIncidents(ctx context.Context, seen *rendezvous.Snapshot, step plan.Step) error {
	all := incidents(seen, step, time.Now())
	for len(all) > 0 {
		m := all[0].machine
		var same []machines.Incident
		all = slices.DeleteFunc(all, func(i incident) bool {
			if i.machine == m {
				same = append(same, i.Incident)
			}
			return i.machine == m
		})
		if err := machines.Note(ctx, r.Store, m, same); err != nil {
			return err
		}
	}
	return nil
}
