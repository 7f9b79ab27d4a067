package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/internal/coordinator/jobs"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

const tiny = 4 << 20

// fill overwrites one key until the store takes no more.
func fill(t *testing.T, c *clientv3.Client) {
	t.Helper()
	big := strings.Repeat("x", 256<<10)
	for range 1000 {
		if _, err := c.Put(t.Context(), "big", big); errors.Is(err, rpctypes.ErrNoSpace) {
			return
		} else if err != nil {
			t.Fatalf("fill: %v", err)
		}
	}
	t.Fatal("the store takes everything")
}

func TestFullStoreIsCured(t *testing.T) {
	var log bytes.Buffer
	cfg := alone(t)
	cfg.Quota, cfg.Log = tiny, Logger(&log)
	m := begin(t, cfg)
	c := dial(t, m)
	fill(t, c)
	if got := get(t, m.Handler(), "/readyz"); got.Code != 503 ||
		!strings.Contains(got.Body.String(), "[-]space failed") {
		t.Errorf("readyz of a full store: %d %s", got.Code, got.Body)
	}
	if got := get(t, m.Handler(), "/metrics"); !strings.Contains(got.Body.String(), "elastic_store_full 1") {
		t.Error("metrics do not show a full store")
	}

	m.look(t.Context(), time.Now())

	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Errorf("put after the cure: %v", err)
	}
	if _, err := c.Grant(t.Context(), 5); err != nil {
		t.Errorf("lease after the cure: %v", err)
	}
	if got := get(t, m.Handler(), "/readyz"); got.Code != 200 {
		t.Errorf("readyz after the cure: %d %s", got.Code, got.Body)
	}
	if got := get(t, m.Handler(), "/metrics"); !strings.Contains(got.Body.String(), "elastic_store_full 0") ||
		!strings.Contains(got.Body.String(), "elastic_store_cures_total 1") {
		t.Error("metrics do not show the cure")
	}
	for _, line := range []string{"the store is full", "the store has space again"} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log does not say once %q:\n%s", line, &log)
		}
	}
	fill(t, c) // and again
	m.look(t.Context(), time.Now())
	if m.full() {
		t.Error("the second time it was not cured")
	}
}

// What is really too much stays an alarm, and is not defragmented over and over.
func TestDataThatIsTooLarge(t *testing.T) {
	cfg := alone(t)
	cfg.Quota = tiny
	m := begin(t, cfg)
	c := dial(t, m)
	now, n := time.Now(), 0
	for !m.full() { // a cure that helps leaves room for more
		for ; !m.full(); n++ {
			if _, err := c.Put(t.Context(), fmt.Sprint("big", n), strings.Repeat("x", 32<<10)); err != nil &&
				!errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatal(err)
			}
		}
		m.look(t.Context(), now)
	}
	cures := m.care.cures.Load()
	if _, err := c.Delete(t.Context(), "big", clientv3.WithPrefix()); err != nil {
		t.Fatalf("delete in a full store: %v", err)
	}
	m.look(t.Context(), now.Add(cureAgain/2))
	if !m.full() {
		t.Error("tried again too early")
	}
	m.look(t.Context(), now.Add(cureAgain))
	if m.full() || m.care.cures.Load() != cures+1 {
		t.Error("not cured although the data went")
	}
}

func recordOf[T any](v T) string { return string(schema.Encode(v)) }

func record0(fields string) string { return `{"format":1,"record":{` + fields + `}}` }

func TestHistoryIsShortened(t *testing.T) {
	m := begin(t, alone(t))
	at := func(rev int64) error {
		_, err := m.client.Get(t.Context(), "k", clientv3.WithRev(rev))
		return err
	}
	var last int64
	for range 20 {
		r, err := m.client.Put(t.Context(), "k", "v")
		if err != nil {
			t.Fatal(err)
		}
		last = r.Header.Revision
	}
	for range 2 { // nothing is left to do the second time
		if err := m.shorten(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := at(last - 10); err != nil {
		t.Errorf("young history: %v", err)
	}
	if err := at(last - 11); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("old history: %v", err)
	}
}

func TestEndedJobsAreRemoved(t *testing.T) {
	m := begin(t, alone(t))
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	put := func(key, value string) {
		t.Helper()
		if _, err := m.client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	job := func(j schema.Job, phase rendezvous.Phase, age time.Duration) {
		put(j.Job(), recordOf(rendezvous.Job{UID: "u", Attempt: 1, Slots: 1}))
		put(j.Fence(), schema.FenceValue("u", 1))
		w := rendezvous.World{UID: "u", Generation: 1, Attempt: 1, Slots: 1, NP: 1, Proposal: "p", Phase: phase,
			Time: now.Add(-age)}
		if phase.Ended() {
			w.Outcome = &rendezvous.Outcome{}
		}
		put(j.World(), recordOf(w))
		put(j.Event("1"), "event")
		put(j.Head(), "head")
	}
	const day = 24 * time.Hour
	job("old", "done", 31*day)
	job("old-failed", "failed", 31*day)
	job("young", "done", 29*day)
	job("running", "running", 31*day)
	job("with-a-node", "stopped", 31*day)
	put(schema.Job("with-a-node").Node("n"), "node")
	put(schema.Job("only-a-job").Job(), record0(``))
	put(schema.Job("newer").Job(), record0(``))
	put(schema.Job("newer").World(), `{"format":9,"record":{"phase":"done","time":"2020-01-01T00:00:00Z"}}`)
	put(schema.Root+"not a name/job", "x")
	put("/other/v1/old/job", "x")

	n, err := jobs.RemoveEnded(t.Context(), m.client, now)
	if err != nil || n != 2 {
		t.Errorf("removed %d, %v; want 2", n, err)
	}
	for j, want := range map[schema.Job]int64{"old": 0, "old-failed": 0, "young": 5, "running": 5,
		"with-a-node": 6, "only-a-job": 1, "newer": 2} {
		r, err := m.client.Get(t.Context(), j.Prefix(), clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || r.Count != want {
			t.Errorf("job %s has %d keys left, want %d (%v)", j, r.Count, want, err)
		}
	}
	if r, err := m.client.Get(t.Context(), "/other/", clientv3.WithPrefix()); err != nil || r.Count != 1 {
		t.Errorf("keys of others: %v, %v", r, err)
	}
}
