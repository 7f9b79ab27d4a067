package machines_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// note writes an incident of machine m in a job, so long before noon.
func note(t *testing.T, st store.Store, m machines.Machine, job string, ago time.Duration) {
	t.Helper()
	err := machines.Note(t.Context(), st, m, []machines.Incident{
		{Node: "c", Job: schema.Job(job), UID: schema.UID("u" + job), Kind: machines.Failed, Text: "exit code 1",
			Time: noon.Add(-ago)},
		{Node: "c", Job: schema.Job(job), UID: schema.UID("u" + job), Kind: machines.LeftOut,
			Text: "exit code 1 twice", Time: noon.Add(-ago)}})
	if err != nil {
		t.Fatal(err)
	}
}

func of(t *testing.T, st store.Store, id string) machines.Record {
	t.Helper()
	r, err := machines.Of(t.Context(), st, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A machine that two jobs left out within an hour is in doubt in the next one.
func TestDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		jobs map[string]time.Duration // how long ago each left it out
		in   schema.UID
		want bool
	}{
		"nothing is known":         {nil, "", false},
		"one job":                  {map[string]time.Duration{"x": time.Minute}, "", false},
		"two jobs":                 {map[string]time.Duration{"x": time.Minute, "y": 59 * time.Minute}, "", true},
		"one of them is long over": {map[string]time.Duration{"x": time.Minute, "y": time.Hour}, "", false},
		"one of them is this job":  {map[string]time.Duration{"x": time.Minute, "y": time.Minute}, "ux", false},
	} {
		st := memory.New().Client("test")
		for job, ago := range c.jobs {
			note(t, st, machines.Machine{ID: "m", Hostname: "h"}, job, ago)
		}
		r := of(t, st, "m")
		if why := r.Doubt(c.in, noon); (why != "") != c.want {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// What happened counts half as much after an hour, and is deleted after a day with the next incident.
func TestDecay(t *testing.T) {
	st := memory.New().Client("test")
	m := machines.Machine{ID: "m", Hostname: "old"}
	note(t, st, m, "x", 25*time.Hour)
	note(t, st, m, "y", time.Hour)
	m.Hostname = "new" // the same machine
	note(t, st, m, "z", 0)
	r := of(t, st, "m")
	if got := r.Weight(machines.Failed, noon); math.Abs(got-1.5) > 0.01 || len(r.Incidents) != 4 {
		t.Errorf("weight %v of %+v", got, r.Incidents)
	}
	if r.Hostname != "new" || r.Last().Job != "z" {
		t.Errorf("%s, the last in %s", r.Hostname, r.Last().Job)
	}
}

// A drained machine stays drained until it is cleared, and nothing is known of it then.
func TestDrain(t *testing.T) {
	st := memory.New().Client("test")
	m := machines.Machine{ID: "m", Hostname: "h"}
	note(t, st, machines.Machine{ID: "m2", Hostname: "h2"}, "x", 0)
	if err := machines.Drain(t.Context(), st, m, noon.Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	note(t, st, m, "x", 0) // deletes what is old
	if r := of(t, st, "m"); r.Drained == nil || len(r.Incidents) != 2 {
		t.Errorf("%+v", r)
	}
	if err := machines.Clear(t.Context(), st, "m"); err != nil {
		t.Fatal(err)
	}
	all, err := machines.All(t.Context(), st)
	if err != nil || len(all) != 1 || all[0].ID != "m2" {
		t.Errorf("%+v, %v", all, err)
	}
}

// A record that no agent writes is skipped.
func TestRecordsOfAStranger(t *testing.T) {
	good := string(schema.Encode(machines.Incident{Node: "c", Job: "x", UID: "u", Kind: machines.LeftOut,
		Time: noon}))
	for name, e := range map[string]store.Entry{
		"no record":       {Key: schema.Incident("m", noon, "u"), Value: []byte("{")},
		"another kind":    {Value: []byte(strings.Replace(good, "left-out", "cursed", 1))},
		"a job as a path": {Value: []byte(strings.Replace(good, `"job":"x"`, `"job":"../x"`, 1))},
		"a long text": {Value: []byte(strings.Replace(good, `"text":""`,
			fmt.Sprintf(`"text":%q`, strings.Repeat("x", 1<<20)), 1))},
		"a machine's name": {Key: schema.Machines + "m m/1", Value: []byte(good)},
		"no machine":       {Key: schema.Machines + "m", Value: []byte(good)},
	} {
		if e.Key == "" {
			e.Key = schema.Incident("m", noon, "u")
		}
		if all := machines.Decode([]store.Entry{e}); len(all) > 0 {
			t.Errorf("%s is taken: %+v", name, all)
		}
	}
	e := store.Entry{Key: schema.Incident("m", noon, "u"), Value: []byte(good)}
	if all := machines.Decode([]store.Entry{e}); len(all) != 1 {
		t.Error("a good record is not taken")
	}
}
