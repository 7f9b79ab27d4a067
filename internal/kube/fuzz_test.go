package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// asked is a server of jobs that notes what it is asked for.
type asked struct {
	t *testing.T
}

func (a asked) Read(context.Context, string, int64) (Job, error) {
	return Job{NP: 2, Min: 2, Max: 2, Status: map[string]string{"status.json": "{}"},
		Events: []Happened{{Rev: 7, Kind: "job_created"}}}, nil
}

func (a asked) Wish(_ context.Context, job string, np int) error {
	if np < 1 {
		a.t.Errorf("job %q is asked for %d nodes", job, np)
	}
	return nil
}

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
		`{"items":[{"metadata":{"name":"../x","managedFields":[`+
			`{"time":"2026-01-01T00:00:00Z","fieldsV1":{"f:spec":{"f:replicas":{}}}}]}}]}`))
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
		loop := Sync{API: api, Jobs: asked{t}, Every: time.Microsecond, Say: func(string) {}}
		loop.Run(ctx)
		if looks < 3 {
			t.Errorf("%d looks", looks)
		}
	})
}
