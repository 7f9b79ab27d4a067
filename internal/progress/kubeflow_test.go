package progress

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// trainer is the server of Kubeflow's trainer, and a Kubeflow that reports to it.
type trainer struct {
	*Kubeflow
	bodies  chan string   // of the requests, as they arrive
	answers chan int      // the status of each; a request waits for its own
	notices chan string   // messages to the user
	tokens  chan string   // Authorization of each request
	stop    func()        // ends the agent
	ended   chan struct{} // the agent has ended
	dir     string
}

func newTrainer(t *testing.T) *trainer {
	k := &trainer{bodies: make(chan string, 100), answers: make(chan int, 100),
		notices: make(chan string, 100),
		tokens:  make(chan string, 100), ended: make(chan struct{}), dir: t.TempDir()}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		k.tokens <- r.Header.Get("Authorization")
		k.bodies <- string(b)
		select {
		case code := <-k.answers:
			w.WriteHeader(code)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	k.write(t, "ca.crt", string(ca))
	k.write(t, "token", "first\n")
	variables := map[string]string{"KUBEFLOW_TRAINER_SERVER_URL": server.URL + "/status",
		"KUBEFLOW_TRAINER_SERVER_CA_CERT": filepath.Join(k.dir, "ca.crt"),
		"KUBEFLOW_TRAINER_SERVER_TOKEN":   filepath.Join(k.dir, "token")}
	k.Kubeflow = NewKubeflow(func(name string) string { return variables[name] },
		func(text string) { k.notices <- text })
	k.pause = 0
	ctx, cancel := context.WithCancel(t.Context())
	k.stop = cancel
	go func() {
		defer close(k.ended)
		k.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-k.ended })
	return k
}

func (k *trainer) write(t *testing.T, name, text string) {
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func atStep(n int64) rendezvous.Progress { return rendezvous.Progress{Step: &n} }

func TestProgressReachesTheTrainer(t *testing.T) {
	k := newTrainer(t)
	k.Tell(rendezvous.Progress{Step: new(int64(131)), Loss: new(0.41), SamplesPerSecond: new(870.5),
		Done: new(0.459), Left: new(rendezvous.Seconds(312500 * time.Millisecond)),
		Time: time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)})
	want := `{"trainerStatus":{"progressPercentage":45,"estimatedRemainingSeconds":312,"metrics":[` +
		`{"name":"loss","value":"0.41"},{"name":"step","value":"131"},` +
		`{"name":"samples_per_second","value":"870.5"}],"lastUpdatedTime":"2026-11-22T13:00:00Z"}}`
	if got := <-k.bodies; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := <-k.tokens; got != "Bearer first" {
		t.Errorf("token %q", got)
	}
	k.write(t, "token", "second")
	k.answers <- 200
	k.Tell(atStep(132))
	if <-k.bodies; <-k.tokens != "Bearer second" {
		t.Error("the token is not read anew")
	}
	k.answers <- 200
}

// A trainer that does not answer holds up neither the steps nor the end of the agent; only the
// newest is reported after it.
func TestTrainerThatDoesNotAnswer(t *testing.T) {
	k := newTrainer(t)
	k.Tell(atStep(1))
	<-k.bodies
	for step := range 1000 {
		k.Tell(atStep(int64(2 + step)))
	}
	k.answers <- 503
	if text := <-k.notices; !strings.Contains(text, "503") {
		t.Errorf("reported %q", text)
	}
	if got := <-k.bodies; !strings.Contains(got, `"1001"`) {
		t.Errorf("after it %s is reported", got)
	}
	k.answers <- 503
	k.Tell(atStep(2000))
	if got := <-k.bodies; !strings.Contains(got, `"2000"`) {
		t.Errorf("the last is %s", got)
	}
	k.stop() // in the middle of that request
	k.Tell(atStep(3000))
	<-k.ended
	if n := len(k.notices); n > 0 {
		t.Errorf("%d more notices of the same", n)
	}
}

// The last report is made after the agent was asked to end.
func TestTheEndReachesTheTrainer(t *testing.T) {
	k := newTrainer(t)
	k.answers <- 200
	k.Tell(atStep(1))
	<-k.bodies
	k.answers <- 200
	k.Tell(atStep(2))
	k.stop()
	if got := <-k.bodies; !strings.Contains(got, `"2"`) {
		t.Errorf("the last is %s", got)
	}
}

func TestTrainerWithoutOrWithBadVariables(t *testing.T) {
	for name, c := range map[string]struct {
		variables map[string]string
		there     bool
		notices   int
	}{
		"none":        {map[string]string{}, false, 0},
		"not https":   {map[string]string{"KUBEFLOW_TRAINER_SERVER_URL": "http://trainer/status"}, false, 1},
		"older names": {map[string]string{"KUBEFLOW_TRAINER_STATUS_URL": "https://trainer/status"}, true, 0},
		"files are later": {map[string]string{"KUBEFLOW_TRAINER_SERVER_URL": "https://trainer",
			"KUBEFLOW_TRAINER_SERVER_TOKEN": "/nonexistent"}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			notices := 0
			k := NewKubeflow(func(n string) string { return c.variables[n] }, func(string) { notices++ })
			if (k != nil) != c.there || notices != c.notices {
				t.Errorf("%v, %d notices", k, notices)
			}
			k.Tell(atStep(1))
		})
	}
}
