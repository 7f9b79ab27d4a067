// Package machines keeps what is known of each machine, beyond the jobs that ran there: failures of
// its workers, losses, and whether an operator drained it.
//
// Each incident is a key of its own, so that two writers never wait for each other. No step of a job
// depends on these records: a store that refuses them costs nothing but the memory.
package machines

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Kind is what happened on a machine.
type Kind string

const (
	Failed  Kind = "failed"   // a worker there failed first
	LeftOut Kind = "left-out" // a job put its node into quarantine
	Lost    Kind = "lost"     // its node was lost
	Hung    Kind = "hung"     // all waited for a worker there
	Disk    Kind = "disk"     // its disk was full or slow, or damaged a checkpoint
	Clock   Kind = "clock"    // its clock differs from the others
	Device  Kind = "device"   // the driver of an accelerator reported an error of the hardware
	Check   Kind = "check"    // its pre-hook, or another check of elastic check, failed
)

// Kinds returns all kinds, those that say most of a machine first.
func Kinds() []Kind { return []Kind{LeftOut, Failed, Lost, Hung, Device, Disk, Clock, Check} }

const (
	halfLife = time.Hour      // the weight of an incident is halved in each
	keptFor  = 24 * time.Hour // older incidents are deleted with the next one
	mostText = 500            // bytes of evidence
	doubtFor = time.Hour
	doubtOf  = 2 // jobs that left a machine out within doubtFor: the next one takes it as a spare
)

// Machine names a machine.
type Machine struct {
	ID       string // of the machine, which outlives its host name
	Hostname string
}

// Incident is one thing that happened on a machine.
type Incident struct {
	Hostname string     `json:"hostname"`
	Node     string     `json:"node"`
	Job      schema.Job `json:"job"`
	UID      schema.UID `json:"uid"`
	Kind     Kind       `json:"kind"`
	Text     string     `json:"text"` // the evidence
	Time     time.Time  `json:"time"`
}

// Validate refuses what no agent writes.
func (i Incident) Validate() error {
	var p schema.Problems
	p.Name("node", i.Node)
	p.Name("job", string(i.Job))
	p.Optional("uid", string(i.UID)) // a node that has not joined does not know it
	p.Check(slices.Contains(Kinds(), i.Kind), "kind is %.80q", i.Kind)
	p.Text("text", i.Text)
	p.Text("hostname", i.Hostname)
	return p.Err()
}

// Drained is the mark of an operator that no job may use a machine.
type Drained struct {
	Hostname string    `json:"hostname"`
	Time     time.Time `json:"time"`
}

// Record is all that is known of one machine.
type Record struct {
	ID        string     `json:"machine"`
	Hostname  string     `json:"hostname"` // the newest one
	Drained   *Drained   `json:"drained"`
	Incidents []Incident `json:"incidents"` // the oldest first
}

// Weight is the number of incidents of a kind, in which each counts half as much after an hour.
func (r *Record) Weight(k Kind, now time.Time) (sum float64) {
	for _, i := range r.Incidents {
		if i.Kind == k {
			sum += math.Exp2(-max(0, now.Sub(i.Time)).Hours() / halfLife.Hours())
		}
	}
	return sum
}

// Last is the newest incident; the zero Incident: there is none.
func (r *Record) Last() (last Incident) {
	if len(r.Incidents) > 0 {
		last = r.Incidents[len(r.Incidents)-1]
	}
	return last
}

// Doubt says why a new node of this machine is only a spare in the job uid; "": it is no worse than
// others. What happened in the job itself is in its own ledger.
func (r *Record) Doubt(uid schema.UID, now time.Time) string {
	var jobs []string
	seen := map[schema.UID]bool{uid: true}
	for _, i := range r.Incidents {
		if i.Kind == LeftOut && now.Sub(i.Time) < doubtFor && !seen[i.UID] {
			seen[i.UID] = true
			jobs = append(jobs, string(i.Job))
		}
	}
	if len(jobs) < doubtOf {
		return ""
	}
	return fmt.Sprintf("this machine was left out of %s in the last hour (%s; the last: %s)",
		phrase.Count(len(jobs), "job"), phrase.List(jobs), r.Last().Text)
}

// Repeated returns the time of an incident that may be seen again and again, such as a full disk: one
// of a kind is kept for each minute.
func Repeated(now time.Time) time.Time { return now.Truncate(time.Minute) }

// Note writes incidents of one machine, and deletes its old ones.
func Note(ctx context.Context, st store.Store, m Machine, all []Incident) error {
	if m.ID == "" || len(all) == 0 {
		return nil
	}
	now := all[0].Time
	var then []store.Write
	for k, i := range all {
		i.Hostname, i.Text = m.Hostname, strings.ToValidUTF8(i.Text[:min(len(i.Text), mostText)], "")
		name := fmt.Sprintf("%s-%s-%d", cmp.Or(string(i.UID), string(i.Job)), i.Kind, k)
		then = append(then, store.Put(schema.Incident(m.ID, now, name), schema.Encode(i)))
	}
	then = append(then, store.DeleteRange(schema.Machine(m.ID), schema.Incident(m.ID, now.Add(-keptFor), "")))
	if _, err := st.Txn(ctx, store.Txn{Then: then}); err != nil {
		return fmt.Errorf("note what happened on machine %s: %w", m.ID, err)
	}
	return nil
}

// Drain marks a machine as one that no job may use.
func Drain(ctx context.Context, st store.Store, m Machine, now time.Time) error {
	d := Drained{Hostname: m.Hostname, Time: now}
	_, err := st.Txn(ctx, store.Txn{Then: []store.Write{store.Put(schema.DrainedMachine(m.ID),
		schema.Encode(d))}})
	if err != nil {
		return fmt.Errorf("drain machine %s: %w", m.ID, err)
	}
	return nil
}

// Clear deletes all that is known of a machine.
func Clear(ctx context.Context, st store.Store, id string) error {
	_, err := st.Txn(ctx, store.Txn{Then: []store.Write{
		store.DeleteRange(schema.Machine(id), store.End(schema.Machine(id)))}})
	if err != nil {
		return fmt.Errorf("clear machine %s: %w", id, err)
	}
	return nil
}

// Of reads the record of one machine.
func Of(ctx context.Context, st store.Store, id string) (Record, error) {
	all, err := read(ctx, st, schema.Machine(id))
	if err != nil || len(all) == 0 {
		return Record{ID: id}, err
	}
	return all[0], nil
}

// All reads the records of all machines, by host name.
func All(ctx context.Context, st store.Store) ([]Record, error) {
	return read(ctx, st, schema.Machines)
}

func read(ctx context.Context, st store.Store, prefix string) ([]Record, error) {
	r, err := st.Get(ctx, prefix, store.End(prefix))
	if err != nil {
		return nil, fmt.Errorf("read the records of machines: %w", err)
	}
	return Decode(r.Entries), nil
}

// Decode makes records of the entries below schema.Machines. It skips an entry that cannot be read.
func Decode(entries []store.Entry) (all []Record) {
	at := map[string]int{}
	for k := range entries {
		e := &entries[k]
		id, rest, ok := strings.Cut(strings.TrimPrefix(e.Key, schema.Machines), "/")
		if !ok || !schema.ValidName(id) {
			continue
		}
		var hostname string
		add := func(change func(*Record)) {
			if _, known := at[id]; !known {
				at[id] = len(all)
				all = append(all, Record{ID: id})
			}
			r := &all[at[id]]
			change(r)
			r.Hostname = cmp.Or(hostname, r.Hostname)
		}
		if rest == schema.DrainedName {
			if d, err := schema.Decode[Drained](e); err == nil {
				hostname = d.Hostname
				add(func(r *Record) { r.Drained = &d })
			}
		} else if i, err := schema.Decode[Incident](e); err == nil {
			hostname = i.Hostname
			add(func(r *Record) { r.Incidents = append(r.Incidents, i) })
		}
	}
	slices.SortStableFunc(all, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.ID, b.ID))
	})
	return all
}
