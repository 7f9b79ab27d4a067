package status_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// healthy has each kind of key of a running job, as stored.
func healthy() []store.Entry {
	const job, world = schema.Job("x"), schema.Generation(3)
	ref := membership.Ref{Node: "a", Incarnation: "i", Address: "127.0.0.1:1"}
	records := map[string][]byte{
		job.Job(): schema.Encode(
			rendezvous.Job{UID: "u", Attempt: 1, Limits: rendezvous.Limits{Min: 1, Max: 2}, Slots: 1}),
		job.Wish():  schema.Encode(rendezvous.Wish{NP: 1, Request: "r", By: "run"}),
		job.Fence(): []byte(schema.FenceValue("u", world)),
		job.World(): schema.Encode(
			rendezvous.World{UID: "u", Generation: world, Attempt: 1, Phase: rendezvous.Running,
				Count: 1, NP: 1,
				Slots: 1, Members: []membership.Ref{ref}, Proposal: "p",
				Master: &rendezvous.Master{Host: "127.0.0.1", Port: 1}}),
		job.Node("a"):         schema.Encode(membership.Node{Ref: ref, Attempt: 1, Slots: 1}),
		job.Left("b"):         schema.Encode(membership.Left{Incarnation: "k"}),
		job.Suspect("a", "b"): schema.Encode(membership.Suspicion{Incarnation: "i", Watcher: "k"}),
		job.Ready(world, "a"): schema.Encode(rendezvous.Ready{Incarnation: "i"}),
		job.Exit(world, "a"):  schema.Encode(rendezvous.Exit{Incarnation: "i"}),
		job.Failure(world):    schema.Encode(rendezvous.Failure{Node: "a", Code: 1}),
		job.Head(): []byte(
			`{"format":1,"record":{"number":1,"generation":1,"bytes":1,"copies":1}}`),
		job.Checkpoint(1): []byte(`{"format":1,"record":{"number":1,"generation":1,"bytes":1,"copies":1}}`),
		job.Held("a"):     []byte(`{"format":1,"record":[1]}`),
		job.Doing("a"):    schema.Encode(rendezvous.Activity{Kind: "saving"}),
		job.Progress():    schema.Encode(rendezvous.Progress{}),
		job.Brought("a"):  schema.Encode(rendezvous.Brought{From: "u", Copy: checkpoint.Copy{Head: checkpoint.Head{Number: 1}}}),
		job.Event("e"):    schema.Encode([]history.Event{{Kind: history.JobCreated}}),
		job.Plan("p", 0):  []byte("a i 127.0.0.1:1\n"),
	}
	var all []store.Entry
	for _, key := range slices.Sorted(maps.Keys(records)) {
		all = append(all, store.Entry{Key: key, Value: records[key], Rev: 1})
	}
	return all
}

func read(entries []store.Entry) (rendezvous.Snapshot, error) {
	s, err := rendezvous.Decode("x", store.Read{Entries: entries, Rev: 2, Cluster: 1})
	s.Events = history.Of("x", entries)
	return s, err
}

// A damaged record is reported as unreadable, whichever it is. Nothing panics, and no other reason
// is given.
func TestEveryKeyWithGarbage(t *testing.T) {
	entries := healthy()
	if s, err := read(entries); err != nil || s.Job == nil || s.World == nil || len(s.Nodes) != 1 {
		t.Fatalf("a healthy job: %+v, %v", s, err)
	}
	garbage := []string{"", "garbage", "null", "[]", "{}", `{"format":1,"record":null}`,
		`{"format":1,"record":7}`, `{"format":1,"record":"x"}`,
		`{"format":1,"record":[]}`, `{"format":1,"record":{}}`, `{"format":9,"record":{}}`,
		`{"format":-1,"record":{}}`, `{"format":1,"record":{"slots":1099511627776}}`,
		`{"format":1,"record":{"uid":"../../x"}}`, `{"format":1,"record":{"phase":"waiting"}}`,
		`{"format":1,"record":{"generation":18446744073709551615,"seen":18446744073709551615}}`,
		`{"format":1,"record":{"codes":[null]}}`, "u/18446744073709551615", "\x00\xff\xfe",
		`{"format":1,"record":{"count":-1,"np":-1,"rank":-5}}`}
	for i := range entries {
		for _, g := range append(garbage, string(entries[i].Value[:len(entries[i].Value)/2])) {
			bad := append([]store.Entry(nil), entries...)
			bad[i].Value = []byte(g)
			s, err := read(bad)
			if err != nil && !schema.Unreadable(err) {
				t.Errorf("%s = %.60q: %v", bad[i].Key, g, err)
			}
			if err == nil && s.Job != nil {
				status.Explain(&s, time.Now())
			}
		}
	}
}

// A record of a node that is no member stops nobody, whatever it holds: it is left out, and named.
func TestStrangersCannotStopAJob(t *testing.T) {
	job := schema.Job("x")
	for _, key := range []string{job.Left("zz"), job.Node("zz"), job.Suspect("zz", "a"),
		job.Suspect("a", "zz"), job.Ready(3, "zz"), job.Exit(3, "zz")} {
		for _, value := range []string{"garbage", `{"format":9,"record":{}}`, `{"format":1,"record":{}}`} {
			entries := append(healthy(), store.Entry{Key: key, Value: []byte(value), Rev: 2})
			s, err := read(entries)
			if err != nil || len(s.Nodes) != 1 || len(s.Unread) != 1 || s.Unread[0].Key != key {
				t.Errorf("%s = %s: %+v, %v", key, value, s.Unread, err)
				continue
			}
			st := status.Explain(&s, time.Now())
			if len(st.Unread) != 1 || st.Unread[0].Key != key {
				t.Errorf("%s = %s: %+v", key, value, st.Unread)
			}
		}
	}
}

// A record without its identity, or under the key of another one, is not accepted.
func TestRecordsThatPoseAsOthers(t *testing.T) {
	job := schema.Job("x")
	for _, c := range []struct{ key, was, is string }{
		{job.Node("a"), `"incarnation":"i"`, `"incarnation":null`},
		{job.Node("a"), `"node":"a"`, `"node":"b"`},
		{job.World(), `"generation":3`, `"generation":null`},
		{job.World(), `"incarnation":"i"`, `"incarnation":""`},
		{job.World(), `"proposal":"p"`, `"proposal":null`},
		{job.World(), `"np":1`, `"np":null`},
		{job.World(), `"phase":"running"`, `"phase":"waiting"`},
		{job.World(), `{"format"`, strings.Repeat(" ", 5<<20) + `{"format"`},
		{job.Wish(), `"np":1`, `"np":0`},
		{job.Job(), `"slots":1`, `"slots":0`},
		{job.Node("a"), `"attempt":1`, `"attempt":0`},
		{job.Fence(), "u/3", "v/3"},
		{job.Checkpoint(1), `"number":1`, `"number":2`},
		{job.World(), `"lr_scale":0`, `"lr_scale":-1`},

		{job.World(), `"charged":0`, `"nodes":[{"node":"a","failures":-1}]`},
		{job.World(), `"charged":0`, `"nodes":[{"node":"../a"}]`},
		{job.Wish(), `"np":1`, `"np":1,"until":-1`},
		{job.Ready(3, "a"), `"incarnation":"i"`, `"incarnation":null`},
		{job.Exit(3, "a"), `"incarnation":"i"`, `"incarnation":null`},
	} {
		entries := healthy()
		at := slices.IndexFunc(entries, func(e store.Entry) bool { return e.Key == c.key })
		value := strings.Replace(string(entries[at].Value), c.was, c.is, 1)
		if value == string(entries[at].Value) {
			t.Fatalf("%s has no %s: %s", c.key, c.was, value)
		}
		entries[at].Value = []byte(value)
		if s, err := read(entries); !errors.Is(err, schema.ErrBadRecord) {
			t.Errorf("%s with %.80s: %v, %+v", c.key, c.is, err, s)
		}
	}
}

// FuzzRecords puts any bytes into any key of a job.
func FuzzRecords(f *testing.F) {
	for i, e := range healthy() {
		f.Add(uint8(i), e.Value)
	}
	f.Fuzz(func(t *testing.T, at uint8, value []byte) {
		entries := healthy()
		entries[int(at)%len(entries)].Value = value
		s, err := read(entries)
		if err != nil {
			if !errors.Is(err, schema.ErrBadRecord) && !errors.Is(err, schema.ErrNewerFormat) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		if s.Job != nil {
			status.Explain(&s, time.Now())
		}
	})
}
