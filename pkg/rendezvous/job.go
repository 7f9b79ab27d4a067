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
	"slices"
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

// OnNaN is what follows a loss that is not a finite number.
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

// RefillAfter is how long workers run until every restart that they spent before is given back.
const RefillAfter = 10 * time.Minute

// Rules are the settings of a job that are no sizes.
type Rules struct {
	MaxRestarts   int                 `json:"max_restarts"`
	LastCall      Seconds             `json:"last_call"`
	Grace         Seconds             `json:"grace"`
	FinishTimeout Seconds             `json:"finish_timeout"` // 0: none
	Replicas      int                 `json:"replicas"`
	Keep          int                 `json:"keep"`
	Load          checkpoint.Load     `json:"load"`
	SaveFrom      checkpoint.SaveFrom `json:"save_from,omitempty"`
	OnNaN         OnNaN               `json:"on_nan,omitempty"`    // "": ignore
	Rollbacks     int                 `json:"rollbacks,omitempty"` // of OnNaN rollback: in a row, at most
}

// Job is what the job is. Its first agent makes it; only a new attempt changes it.
type Job struct {
	Name     schema.Job   `json:"-"`
	UID      schema.UID   `json:"uid"`
	Attempt  int          `json:"attempt"` // 1, 2, …: a run of the job after it failed or was stopped
	Limits   Limits       `json:"limits"`
	Slots    int          `json:"slots"` // workers a node
	Base     scaling.Base `json:"base"`
	Rules    Rules        `json:"rules"`
	Succeeds schema.UID   `json:"succeeds,omitempty"` // the uid that it had in a store that was lost
	// and those before that one, if it was lost more than once
	Lineage []schema.UID `json:"lineage,omitempty"`
	Ran     bool         `json:"ran,omitempty"` // it had a World before it was made again
	// Adopted is the number that its first checkpoint had in that store; 0: none was found.
	Adopted checkpoint.Number `json:"adopted,omitempty"`
	// Claimants are the nodes that claimed it when it was made again, unless they are many: until it has
	// a World they are its nodes.
	Claimants []string `json:"claimants,omitempty"`
	Made      bool     `json:"made,omitempty"` // its id was made up: it is stopped when its last node leaves
	Origin    Origin   `json:"origin,omitzero"`
	// Hosts are the addresses of its nodes in the order of their ranks, where all of them were
	// given.
	Hosts []string    `json:"hosts,omitempty"`
	Roles *roles.Spec `json:"roles,omitempty"` // nil: every process is a trainer
	Time  time.Time   `json:"time"`
	Rev   int64       `json:"-"`
}

// Place is how large a world of so many nodes is, as its processes are placed.
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

// Ports is how many ports the processes of the node of that rank need, in a job with roles.
func (j *Job) Ports(nodes, rank int) int {
	return j.Roles.Ports(j.Place(nodes), rank)
}

// Savers are the members of w that write a part of each save where nodes save apart: all of them;
// with roles the nodes that have a server, and that of rank 0, which commits.
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

// KeepsServers reports whether the World next leaves every server of w where it is. Servers that
// stay have newer tables than the checkpoint, so all of them stay, or none. The node of rank 0 must
// have a server: from that the trainer of rank 0 knows whether the servers stayed.
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

// Predecessors are the uids that the job had in stores that were lost, the newest last: enough of
// them for a node that was away for long.
func (j *Job) Predecessors() []schema.UID {
	const most = 16
	all := slices.Clone(j.Lineage)
	if j.Succeeds != "" {
		all = append(all, j.Succeeds)
	}
	return all[max(0, len(all)-most):]
}

// Follows reports whether j is the job u, made again after its store was lost.
func (j *Job) Follows(u schema.UID) bool { return u != "" && slices.Contains(j.Predecessors(), u) }

// Supersede makes the nodes of the job o go on in j: the uids of o count as earlier ones of j.
func (j *Job) Supersede(o *Job) {
	for _, u := range append(o.Predecessors(), o.UID) {
		if u != j.UID && !j.Follows(u) {
			j.Lineage = append(slices.Clip(j.Lineage), u)
		}
	}
}

// Replaces reports whether a node of the job was goes on in j: j is that job made again, or both
// were made from one job, j later than was. The second happens where the store was lost once more
// before others had heard of was.
func (j *Job) Replaces(was *Job) bool {
	return j.Follows(was.UID) && !was.Follows(j.UID) || j.Time.After(was.Time) && j.Twin(was)
}

// Twin reports whether the job o and j were made from one job, and neither from the other.
func (j *Job) Twin(o *Job) bool {
	return j.UID != o.UID && !j.Follows(o.UID) && !o.Follows(j.UID) &&
		slices.ContainsFunc(o.Predecessors(), j.Follows)
}

// Admit lifts the quarantines of a node that began in Generation or before.
type Admit struct {
	Node       string            `json:"node"`
	Generation schema.Generation `json:"generation"`
}

// Wish is what the operator asked.
type Wish struct {
	NP    int      `json:"np"`              // the size that is wanted
	Drain []string `json:"drain"`           // nodes that are to go
	Admit []Admit  `json:"admit,omitempty"` // nodes whose quarantine is lifted
	// Until is the size that an exact job keeps until NP nodes are here; 0: it waits for them.
	Until   int       `json:"until,omitempty"`
	Stop    int       `json:"stop"`            // the attempt that it ends; 0: none
	Grace   Seconds   `json:"grace,omitempty"` // of that stop; 0: the job's
	Request string    `json:"request"`         // causes have an id: 3→1→3 restarts those that stopped
	By      string    `json:"by"`              // run, scale, drain, stop
	Time    time.Time `json:"time"`
	Rev     int64     `json:"-"`
}
