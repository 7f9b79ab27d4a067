package overview

import (
	"slices"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// Failure is a failed worker, the culprit, with those that failed because of it.
type Failure struct {
	status.Failure
	Rev int64 `json:"rev"` // of its event
}

// mostFailures bounds the list of failures.
const mostFailures = 20

// failuresOf returns the failures of workers, the newest first.
func failuresOf(events []history.Event) []Failure {
	all := []Failure{}
	for i := range slices.Backward(events) {
		e := &events[i]
		if e.Kind != history.WorkerFailed || len(all) == mostFailures {
			continue
		}
		if f := status.FailureOf(e); f != nil {
			all = append(all, Failure{*f, e.Rev})
		}
	}
	return all
}
