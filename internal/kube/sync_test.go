package kube_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/kube"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// server is an API server that knows StatefulSets, ConfigMaps and events.
type server struct {
	mu     sync.Mutex
	sets   map[string]map[string]any
	edits  int
	config map[string]string
	events []string
	denied string // a resource that this account may not write
	looks  chan struct{}
}

func serve(t *testing.T) (*server, *kube.Client) {
	t.Helper()
	s := &server{sets: map[string]map[string]any{}, config: map[string]string{}, looks: make(chan struct{})}
	web := httptest.NewTLSServer(s)
	t.Cleanup(web.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	for name, text := range map[string]string{"ca.crt": string(ca), "namespace": "lab", "token": "secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	api, err := kube.Open(web.URL, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, api
}

// put makes or edits a StatefulSet.
func (s *server) put(name, job string, replicas int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[name] == nil {
		s.sets[name] = map[string]any{"metadata": map[string]any{"name": name, "uid": name,
			"labels": map[string]string{kube.Label: job}}}
	}
	s.edit(name, replicas)
}

// edit sets the replicas, as another client does. s.mu is held.
func (s *server) edit(name string, replicas int) {
	s.edits++
	s.sets[name]["spec"] = map[string]any{"replicas": replicas}
	s.sets[name]["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(s.edits)
}

func (s *server) replicas(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := s.sets[name]["spec"].(map[string]any)["replicas"].(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return -1
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var body map[string]any
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&body) // a GET has none
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.Split(r.URL.Path, "/namespaces/lab/")[1]
	kind, name, _ := strings.Cut(path, "/")
	if kind == s.denied {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	switch kind + " " + r.Method {
	case "statefulsets GET":
		items := []any{}
		for _, n := range []string{"a", "b"} {
			if set := s.sets[n]; set != nil {
				items = append(items, set)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items}) // the client says what it misses
		select {
		case s.looks <- struct{}{}:
		default:
		}
	case "statefulsets PATCH":
		meta, change := s.sets[name]["metadata"].(map[string]any), body["metadata"].(map[string]any)
		if change["resourceVersion"] != meta["resourceVersion"] {
			w.WriteHeader(http.StatusConflict)
			return
		}
		if spec, ok := body["spec"].(map[string]any); ok {
			s.sets[name]["spec"] = spec
		}
		meta["annotations"] = change["annotations"]
	case "configmaps PATCH":
		for k, v := range body["data"].(map[string]any) {
			s.config[name+"/"+k] = v.(string)
		}
	case "events POST":
		text := fmt.Sprintf("%s: %s", body["reason"], body["message"])
		if about := body["involvedObject"].(map[string]any); about["kind"] == "Pod" {
			text += fmt.Sprintf(" (pod %s, %s)", about["name"], about["uid"])
		}
		s.events = append(s.events, text)
	case "pods GET":
		if name != "a-0" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]string{"uid": "u-" + name}})
	}
}

// jobs is a server with one job.
type jobs struct {
	t *testing.T
	txn.Requests
}

// jobOf makes a job of np nodes, or of a range, in a store in memory.
func jobOf(t *testing.T, name schema.Job, limits rendezvous.Limits) *jobs {
	t.Helper()
	j := &jobs{t, txn.Requests{Store: memory.New().Client("sync"), Job: name}}
	job := rendezvous.Job{UID: "u", Attempt: 1, Slots: 1, Limits: limits, Time: time.Now(),
		Base: scaling.Base{Nodes: limits.Max, Slots: 1}}
	if err := j.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *jobs) read() rendezvous.Snapshot {
	j.t.Helper()
	snap, err := rendezvous.Read(j.t.Context(), j.Store, j.Job)
	if err != nil {
		j.t.Fatal(err)
	}
	return snap
}

func (j *jobs) np() int { return j.read().Wish.NP }

// scale asks for np nodes, as elastic scale does.
func (j *jobs) scale(np int) {
	j.t.Helper()
	snap := j.read()
	wish := snap.Wish
	wish.NP, wish.By = np, "scale"
	if _, err := j.SetWish(j.t.Context(), &snap, wish); err != nil {
		j.t.Fatal(err)
	}
}

func (j *jobs) tell(events ...history.Event) {
	j.t.Helper()
	if _, err := j.Store.Txn(j.t.Context(), store.Txn{Then: []store.Write{history.Tell(j.Job, events...)}}); err != nil {
		j.t.Fatal(err)
	}
}

// run lets the loop look n times.
func run(t *testing.T, s *server, api *kube.Client, j *jobs) (looks func(n int), said func() []string) {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	loop := kube.Sync{API: api, Store: j.Store, Every: time.Millisecond, Say: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}}
	go func() {
		defer close(done)
		loop.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	looks = func(n int) {
		for range n {
			<-s.looks
		}
	}
	return looks, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(lines)
	}
}

func TestSyncBothWays(t *testing.T) {
	s, api := serve(t)
	s.put("a", "x", 2)
	j := jobOf(t, "x", rendezvous.Limits{Min: 2, Max: 2, Exact: true})
	j.tell(history.Event{Kind: history.NodeJoined, Node: "a-0", Text: "normal"},
		history.Event{Kind: history.Quarantined, Node: "a-0", Text: "a-0 is out"},
		history.Event{Kind: history.NodeLost, Node: "a-1", Text: "a-1 is lost"},
		history.Event{Kind: history.NodeLost, Node: "../pods", Text: "no pod"})
	looks, _ := run(t, s, api, j)
	looks(3)
	s.put("a", "x", 4)
	looks(3)
	if np := j.np(); np != 4 {
		t.Errorf("replicas were set to 4, np is %d", np)
	}
	j.scale(1)
	looks(3)
	if n := s.replicas("a"); n != 1 {
		t.Errorf("np was set to 1, replicas is %d", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config["elastic-x/state"] != "waiting" {
		t.Errorf("config map %v", s.config)
	}
	if want := []string{"job_created: job created",
		"node_quarantined: a-0 is out (pod a-0, u-a-0)", "node_lost: a-1 is lost", "node_lost: no pod",
		"wish_changed: np changed from 2 to 4", "wish_changed: np changed from 4 to 1"}; !slices.Equal(s.events, want) {
		t.Errorf("events %q, want %q", s.events, want)
	}
}

// A size that the job cannot have is reported, and np stays. If both sides were changed, the
// StatefulSet wins, and an event says so.
func TestSyncOfBothSides(t *testing.T) {
	s, api := serve(t)
	s.put("a", "x", scaling.MaxWorld+1)
	j := jobOf(t, "x", rendezvous.Limits{Min: 2, Max: 2, Exact: true})
	looks, said := run(t, s, api, j)
	looks(3)
	if lines := said(); j.np() != 2 || len(lines) != 1 || !strings.HasPrefix(lines[0], "scale job x to ") {
		t.Errorf("np is %d, reported %q", j.np(), lines)
	}
	s.put("a", "x", 2)
	looks(3)
	s.mu.Lock() // a look between the two edits finds that the StatefulSet has changed since
	s.edit("a", 3)
	j.scale(1)
	s.mu.Unlock()
	looks(3)
	if np, n := j.np(), s.replicas("a"); np != 3 || n != 3 {
		t.Errorf("np is %d, replicas is %d", np, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := "ElasticSize: replicas was set to 3 and np to 1; replicas wins"; !slices.Contains(s.events, want) {
		t.Errorf("events %q, want %q", s.events, want)
	}
}

// A range follows its pods by itself, so neither side is changed; what is outside of it is reported
// once.
func TestSyncWarnsOutsideOfTheRange(t *testing.T) {
	s, api := serve(t)
	s.put("a", "x", 6)
	j := jobOf(t, "x", rendezvous.Limits{Min: 2, Max: 4})
	looks, _ := run(t, s, api, j)
	looks(3)
	s.put("a", "x", 1)
	looks(3)
	if n := s.replicas("a"); n != 1 || j.np() != 4 {
		t.Errorf("replicas is %d, np is %d", n, j.np())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want := []string{"job_created: job created",
		"ElasticSize: replicas is 6 and the job takes at most 4: the other pods stand by as " +
			"spares",
		"ElasticSize: replicas is 1 and the job needs at least 2: training waits"}
	if !slices.Equal(s.events, want) {
		t.Errorf("events %q, want %q", s.events, want)
	}
}

func TestSyncSaysWhatAPersonHasToMend(t *testing.T) {
	s, api := serve(t)
	s.put("a", "x", 2)
	s.put("b", "x", 3)
	s.denied = "events"
	j := jobOf(t, "x", rendezvous.Limits{Min: 2, Max: 2, Exact: true})
	looks, said := run(t, s, api, j)
	looks(5)
	if lines := said(); len(lines) != 1 || !strings.Contains(lines[0], "only that one is kept equal") {
		t.Errorf("two StatefulSets of one job: %q", lines)
	}
	if n := s.replicas("b"); n != 3 {
		t.Errorf("the second StatefulSet has %d replicas", n)
	}
	s.mu.Lock()
	s.denied = "statefulsets"
	s.mu.Unlock()
	for len(said()) < 2 { // the loop says it at its next look
		if t.Context().Err() != nil {
			t.Fatal("it was not said")
		}
		time.Sleep(time.Millisecond)
	}
	if lines := said(); !strings.Contains(lines[1], "lacks a right") {
		t.Errorf("%q", lines)
	}
}

// A job whose ConfigMap the API server would refuse is reported once and left alone; the others are
// not.
func TestJobsThatCannotNameAConfigMap(t *testing.T) {
	for _, name := range []string{"My", "a_b", "a..b", "a-", "a.-b"} {
		t.Run(name, func(t *testing.T) {
			s, api := serve(t)
			s.put("a", name, 2)
			s.put("b", "x.y-1", 3)
			j := jobOf(t, "x.y-1", rendezvous.Limits{Min: 2, Max: 4})
			looks, said := run(t, s, api, j)
			looks(3)
			want := "a: elastic.dev/job=" + name + ` is not kept equal: "elastic-` + name +
				`" cannot name a ConfigMap`
			if lines := said(); len(lines) != 1 || !strings.HasPrefix(lines[0], want) {
				t.Errorf("reported %q, want one line that begins with %q", lines, want)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if _, written := s.config["elastic-"+name+"/status.json"]; written ||
				s.config["elastic-x.y-1/status.json"] == "" {
				t.Errorf("ConfigMaps %v", s.config)
			}
		})
	}
}
