package node

import (
	"testing"

	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// The exit of a worker decides whether its last files are a save: they are not after a signal or a
// failure. The exits of servers that are no longer needed do not count.
func TestHowWorkersEnded(t *testing.T) {
	server := rendezvous.Process{Name: "server 0"}
	for _, c := range []struct {
		name    string
		exit    worker.Exit
		process rendezvous.Process
		want    capture.WorkerState
	}{
		{"through", worker.Exit{}, rendezvous.Process{}, capture.Exited},
		{"asked to stop", worker.Exit{Code: 143, Ours: true}, rendezvous.Process{}, capture.Exited},
		{"asks for another generation", worker.Exit{Code: 101}, rendezvous.Process{}, capture.Exited},
		{"failed", worker.Exit{Code: 1}, rendezvous.Process{}, capture.Failed},
		{"failed as it was asked", worker.Exit{Code: 1, Ours: true}, rendezvous.Process{}, capture.Failed},
		{"a shell whose program was killed", worker.Exit{Code: 137}, rendezvous.Process{}, capture.Failed},
		{"killed", worker.Exit{Code: 137, Signal: "SIGKILL"}, rendezvous.Process{}, capture.Killed},
		{"a server failed", worker.Exit{Code: 1}, server, capture.Failed},
		{"a server is not needed", worker.Exit{Code: 143, Signal: "SIGTERM", Ours: true}, server,
			capture.Exited},
		{"a server stops", worker.Exit{Code: 1, Ours: true}, server, capture.Exited},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := endOf(c.exit, c.process); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
