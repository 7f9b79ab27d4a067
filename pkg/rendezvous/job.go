// Package rendezvous has the records of a job: what it is, what the operator asked for, its newest
// World, and what its nodes report. A Snapshot is one read of all of them.
//
// Package follow tells of every change as a new Snapshot. Package plan is a pure function from a
// Snapshot to the next step of the job. Package txn has the transactions that carry a step out,
// each with guards that refuse it when it arrives late. No agent is in charge: any may take any
// step, and the store accepts one of them.
package rendezvous

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/roles"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// Limits are the sizes that a World may have, in nodes.
type Limits struct {
	Min   int  `json:"min"`
	Max   int  `json:"max"`
	Exact bool `json:"exact"` // --np=N: exactly N form a World, and scale may set any N
}

// String is how a user writes it.
func (l Limits) String() string {
	if l.Exact {
		return fmt.Sprint(l.Max)
	}
	return fmt.Sprintf("%d:%d", l.Min, l.Max)
}

// Seconds is a duration, written in seconds for readers of the store.
type Seconds time.Duration

func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

func (s *Seconds) UnmarshalJSON(b []byte) error {
	var f float64
	err := json.Unmarshal(b, &f)
	*s = Seconds(f * float64(time.Second))
	return err
}

// OnNaN is what the job does after a loss that is not a finite number.
type OnNaN string

const (
	NaNIgnored  OnNaN = "ignore"
	NaNFails    OnNaN = "fail"
	NaNRollback OnNaN = "rollback"
)

// NaNRule is how a user writes the rule about losses.
func (r Rules) NaNRule() string {
	if r.OnNaN == NaNRollback {
		return fmt.Sprintf("%s:%d", r.OnNaN, r.Rollbacks)
	}
	return string(cmp.Or(r.OnNaN, NaNIgnored))
}

// RefillAfter is how long workers run before the restart budget is full again.
const RefillAfter = 10 * time.Minute

// Rules are the settings of a job apart from its sizes.
type Rules struct {
	MaxRestarts int                 `json:"max_restarts"`
	LastCall    Seconds             `json:"last_call"`
	Grace       Seconds             `json:"grace"`
	Replicas    int                 `json:"replicas"`
	Keep        int                 `json:"keep"`
	Load        checkpoint.Load     `json:"load"`
	SaveFrom    checkpoint.SaveFrom `json:"save_from,omitempty"`
	// SaveFiles are the files that make one save.
	SaveFiles checkpoint.SaveFiles `json:"save_files,omitempty"`
	OnNaN     OnNaN                `json:"on_nan,omitempty"`    // "": ignore
	Rollbacks int                  `json:"rollbacks,omitempty"` // at most in a row, with OnNaN rollback
}

// Job is the record of a job. Its first agent writes it; only a new attempt, or a store that was
// lost, changes it.
type Job struct {
	Name    schema.Job   `json:"-"`
	UID     schema.UID   `json:"uid"`
	Attempt int          `json:"attempt"` // 1, 2, …: a run of the job after it failed or was stopped
	Limits  Limits       `json:"limits"`
	Slots   int          `json:"slots"` // workers a node
	Base    scaling.Base `json:"base"`
	Rules   Rules        `json:"rules"`
	// FirstUID is the uid that the job had before its store was first lost, and Remade is how often
	// living nodes made it again since, each time under a new uid. "": UID, it never was.
	FirstUID schema.UID `json:"first_uid,omitempty"`
	Remade   int        `json:"remade,omitempty"`
	// Resumes says that nodes were asked to bring checkpoints before the job was made. Its first World begins
	// from one of them, never from scratch.
	Resumes bool   `json:"resumes,omitempty"`
	Made    bool   `json:"made,omitempty"` // elastic chose the id; the job stops with its last node
	Origin  Origin `json:"origin,omitzero"`
	// Hosts are the addresses of the nodes by rank, if all of them were given.
	Hosts []string    `json:"hosts,omitempty"`
	Roles *roles.Spec `json:"roles,omitempty"` // nil: every process is a trainer
	Time  time.Time   `json:"time"`
	Rev   int64       `json:"-"`
}

// Identity is the uid that the job had first. It keeps it when living nodes make it again.
func (j *Job) Identity() schema.UID { return cmp.Or(j.FirstUID, j.UID) }

// Same reports whether both are the same job, one of them perhaps made again.
func (j *Job) Same(o *Job) bool { return j.Identity() == o.Identity() }

// Place is the size of a world of so many nodes, as roles count it.
func (j *Job) Place(nodes int) roles.Size {
	return roles.Size{Nodes: nodes, Slots: j.Slots, Hosts: j.Hosts}
}

// Workers is the number of trainers in a world of so many nodes.
func (j *Job) Workers(nodes int) int {
	if j.Roles != nil && j.Roles.Trainers != nil {
		return len(j.Roles.Trainers)
	}
	return nodes * j.Slots
}

// Ports is the number of ports that the processes of the node of that rank need, in a job with
// roles.
func (j *Job) Ports(nodes, rank int) int {
	return j.Roles.Ports(j.Place(nodes), rank)
}

// Savers are the members of w that write a part of each save, if nodes save separately. Without
// roles these are all members. With roles they are the nodes that have a server, and the node of
// rank 0, which commits.
func (j *Job) Savers(w *World) []membership.Ref {
	if j.Roles == nil {
		return w.Members
	}
	savers := []membership.Ref{w.Members[0]}
	for i, serves := range j.Roles.Serves(j.Place(len(w.Members))) {
		if i > 0 && serves {
			savers = append(savers, w.Members[i])
		}
	}
	return savers
}

// KeepsServers reports whether every server of w stays where it is in the World next. The tables of
// a server that stays are newer than the checkpoint, so either all servers stay or none. The node
// of rank 0 must have a server, which tells the trainer of rank 0 whether the servers stayed.
func (j *Job) KeepsServers(w, next *World) bool {
	if next.Generation != w.Generation+1 || next.Cause == CauseWorkerFailed || next.Cause == CauseAsked {
		return false
	}
	before := j.Roles.Serves(j.Place(len(w.Members)))
	now := j.Roles.Serves(j.Place(len(next.Members)))
	for rank, serves := range before {
		there := rank < len(now) && now[rank]
		if serves != there || serves && !next.Members[rank].Same(w.Members[rank]) {
			return false
		}
	}
	return before[0]
}

// Admit lifts the quarantines that a node got in Generation or before, and the doubt with which this
// incarnation of it is registered.
type Admit struct {
	Node        string                 `json:"node"`
	Generation  schema.Generation      `json:"generation"`
	Incarnation membership.Incarnation `json:"incarnation,omitempty"`
}

// Wish is what the operator asked.
type Wish struct {
	NP    int      `json:"np"`              // the wanted number of nodes
	Drain []string `json:"drain"`           // nodes that must leave
	Admit []Admit  `json:"admit,omitempty"` // nodes whose quarantine is lifted
	// Until is the size that an exact job keeps until NP nodes are registered; 0: it waits for
	// them.
	Until int     `json:"until,omitempty"`
	Stop  int     `json:"stop"`            // the attempt to stop; 0: none
	Grace Seconds `json:"grace,omitempty"` // grace of that stop; 0: the job's
	// RequireSave: that stop is refused if the workers did not save.
	RequireSave bool `json:"require_save,omitempty"`
	// Restart is the generation whose workers save, end and start again; 0: none. The next
	// generation answers it.
	Restart schema.Generation `json:"restart,omitempty"`
	Request string            `json:"request"` // an id of its own: 3→1→3 restarts nodes that stopped
	By      string            `json:"by"`      // run, scale, drain, stop, restart
	Time    time.Time         `json:"time"`
	Rev     int64             `json:"-"`
}

// ActsOnNaN reports whether the job has a rule for a loss that is not a number.
func (r Rules) ActsOnNaN() bool { return r.OnNaN == NaNFails || r.OnNaN == NaNRollback }
