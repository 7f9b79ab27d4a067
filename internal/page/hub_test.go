package page

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// open reads the stream of a page until a message satisfies is.
func read(t *testing.T, url string, is func(map[string]json.RawMessage) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all := map[string]json.RawMessage{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var m message
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatal(err)
		}
		for key, piece := range m.Set {
			all[key] = piece
		}
		all["problem"] = json.RawMessage(m.Problem)
		if is(all) {
			return
		}
	}
	t.Fatalf("the stream ended with %v", all)
}

func job(t *testing.T, s store.Store, name schema.Job) {
	t.Helper()
	put := func(w ...store.Write) {
		if _, err := s.Txn(t.Context(), store.Txn{Then: w}); err != nil {
			t.Fatal(err)
		}
	}
	put(store.Put(name.Job(), schema.Encode(rendezvous.Job{UID: "u", Attempt: 1, Slots: 1,
		Limits: rendezvous.Limits{Min: 1, Max: 1}, Time: time.Now()})),
		history.Tell(name, history.Event{Kind: history.JobCreated, Text: "<b>made</b>"}))
}

// quiet is a store without a majority, while hangs is set: its watch says nothing, and reads hang.
type quiet struct {
	store.Store
	hangs *atomic.Bool
}

func (q quiet) Get(ctx context.Context, key, end string) (store.Read, error) {
	if q.hangs.Load() {
		<-ctx.Done()
		return store.Read{}, ctx.Err()
	}
	return q.Store.Get(ctx, key, end)
}

// A page says that its server has stopped to answer, and no longer when it answers again.
func TestSilence(t *testing.T) {
	q := quiet{memory.New().Client("page"), &atomic.Bool{}}
	job(t, q, "x")
	p := New(Config{Source: q})
	defer p.Close()
	srv := httptest.NewServer(p)
	defer srv.Close()
	said := false
	read(t, srv.URL+"/stream", func(all map[string]json.RawMessage) bool {
		text := string(all["problem"])
		switch {
		case said || all["jobs/x"] == nil:
		case text == "":
			q.hangs.Store(true)
		default:
			said = text == silence
			q.hangs.Store(false)
		}
		return said && text == ""
	})
}

// A page shows a job that it found, one that is made later, and that one is removed. Nothing is read
// while nobody looks.
func TestStream(t *testing.T) {
	cluster := memory.New()
	s := cluster.Client("page")
	job(t, s, "early")
	p := New(Config{Source: s})
	defer p.Close()
	srv := httptest.NewServer(http.StripPrefix("/below/a/prefix", p))
	defer srv.Close()
	at := srv.URL + "/below/a/prefix/"
	read(t, at+"stream?job=early", func(all map[string]json.RawMessage) bool {
		return all["jobs/early"] != nil && strings.Contains(string(all["job/early/events"]), "made")
	})
	job(t, s, "later")
	removed := false
	read(t, at+"stream", func(all map[string]json.RawMessage) bool {
		if all["jobs/later"] == nil {
			return false
		}
		if !removed {
			removed = true
			if _, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{
				store.DeleteRange(schema.Job("later").Prefix(), store.End(schema.Job("later").Prefix()))}}); err != nil {
				t.Fatal(err)
			}
		}
		return string(all["jobs/later"]) == "null"
	})
}

// A report of progress sends neither events, timeline nor nodes again, and what programs see has
// all of them.
func TestProgressIsSmall(t *testing.T) {
	s := memory.New().Client("page")
	job(t, s, "x")
	p := New(Config{Source: s})
	defer p.Close()
	v := p.hub.join("x")
	defer p.hub.leave(v)
	sent := func(name string) map[string]json.RawMessage {
		for {
			select {
			case <-t.Context().Done():
				t.Fatal(name + " was not sent")
			case <-v.wake:
			}
			if m := p.hub.changes(v); m.Set["job/x/"+name] != nil {
				return m.Set
			}
		}
	}
	sent("events")
	if _, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{store.Put(schema.Job("x").Progress(),
		schema.Encode(rendezvous.Progress{Step: new(int64(7)), Time: time.Now()}))}}); err != nil {
		t.Fatal(err)
	}
	set := sent("curve")
	for _, name := range []string{"events", "timeline", "nodes", "world", "checkpoints"} {
		if piece := set["job/x/"+name]; piece != nil {
			t.Errorf("progress sends %s again: %s", name, piece)
		}
	}
	at := func(step int64) map[string]any {
		return piecesOf(overview.Job{Timeline: overview.Timeline{Generations: []overview.Generation{{Reached: &step}}},
			Status: status.Status{Nodes: []status.Node{{Node: "a"}}},
			Events: []history.Event{{Fields: history.Fields{"step": step}}}})
	}
	if before, after := at(7), at(8); !reflect.DeepEqual(before, after) {
		t.Errorf("a step more changes %v to %v", before, after)
	} else if st := before["status"].(status.Status); st.Nodes != nil {
		t.Errorf("the status has the nodes: %v", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.Look(ctx, "x", func(view View) {
		if view.Job == nil {
			return
		}
		if len(view.Job.Events) != 1 || view.Job.Status.Nodes == nil || view.Job.Status.World == nil {
			t.Errorf("a program sees %+v", view.Job)
		}
		cancel()
	})
}

// Each file is served with a policy that allows no other source and no inline script.
func TestFiles(t *testing.T) {
	p := New(Config{Source: memory.New().Client("page")})
	defer p.Close()
	for _, name := range append(names(), "") {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+name, nil))
		if w.Code != http.StatusOK || w.Body.Len() == 0 ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%q: %d, %v", name, w.Code, w.Header())
		}
	}
	for _, path := range []string{"/../page.go", "/assets/", "/stream?job=a/b", "/lines?job=x"} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code == http.StatusOK {
			t.Errorf("%s is served", path)
		}
	}
}
