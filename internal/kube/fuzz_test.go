package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/store/memory"
)

type transport func(*http.Request) *http.Response

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// FuzzStatefulSets has the API server answer with any bytes. No job is asked for less than one
// node, and the next look is made all the same.
func FuzzStatefulSets(f *testing.F) {
	f.Add(200, []byte(
		`{"items":[{"metadata":{"name":"a","uid":"u","labels":{"elastic.dev/job":"x"}},"spec":{"replicas":4}}]}`))
	f.Add(200, []byte(
		`{"items":[{"spec":{"replicas":-4}},{"metadata":{"annotations":{"elastic.dev/synced":"-1"}}}]}`))
	f.Add(200, []byte(
		`{"items":[{"metadata":{"name":"../x","labels":{"elastic.dev/job":"x"}},"spec":{"replicas":-4}}]}`))
	f.Add(409, []byte(`{"message":"\u001b[2J"}`))
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("secret"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			status = http.StatusOK
		}
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		api := &Client{base: "https://api", dir: dir, namespace: "lab"}
		api.http = &http.Client{Transport: transport(func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			if r.Method == http.MethodGet {
				if looks++; looks >= 3 {
					cancel()
				}
				w.WriteHeader(status)
				w.Write(body)
			}
			return w.Result()
		})}
		job := txn.Requests{Store: memory.New().Client("sync"), Job: "x"}
		if err := job.Create(t.Context(), rendezvous.Job{UID: "u", Attempt: 1, Slots: 1,
			Limits: rendezvous.Limits{Min: 2, Max: 2, Exact: true}, Base: scaling.Base{Nodes: 2, Slots: 1}}); err != nil {
			t.Fatal(err)
		}
		loop := Sync{API: api, Store: job.Store, Every: time.Microsecond, Say: func(string) {}}
		loop.Run(ctx)
		if snap, err := rendezvous.Read(t.Context(), job.Store, job.Job); err != nil || snap.Wish.NP < 1 {
			t.Errorf("%d nodes are asked for: %v", snap.Wish.NP, err)
		}
		if looks < 3 {
			t.Errorf("%d looks", looks)
		}
	})
}
