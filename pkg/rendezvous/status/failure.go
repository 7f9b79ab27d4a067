package status

import (
	"encoding/json"
	"slices"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Failure is the newest failure of a worker, from the events.
type Failure struct {
	Generation schema.Generation          `json:"generation"`
	Node       string                     `json:"node"`
	Rank       int                        `json:"rank"`
	LocalRank  int                        `json:"local_rank"`
	ExitCode   *int                       `json:"exit_code"`
	Signal     *string                    `json:"signal"`
	Hang       bool                       `json:"hang"`
	Collateral bool                       `json:"collateral"` // the loss of a node explains it
	Message    string                     `json:"message"`
	Detail     string                     `json:"detail"`
	Others     []rendezvous.CollateralEnd `json:"others"`
	Text       string                     `json:"text"` // all of it in one sentence
	Time       Timestamp                  `json:"time"`
}

// LastFailure returns the newest failure of a worker; nil if none failed.
func LastFailure(s *rendezvous.Snapshot) *Failure {
	for i := range slices.Backward(s.Events) {
		if s.Events[i].Kind == history.WorkerFailed {
			return FailureOf(&s.Events[i])
		}
	}
	return nil
}

// FailureOf reads the event of a failure; nil if it cannot be read.
func FailureOf(e *history.Event) *Failure {
	raw, err := json.Marshal(e.Fields)
	f := Failure{}
	if err != nil || json.Unmarshal(raw, &f) != nil {
		return nil
	}
	f.Generation, f.Node, f.Text, f.Time = e.Generation, e.Node, e.Text, Timestamp{e.Time}
	if f.Others == nil {
		f.Others = []rendezvous.CollateralEnd{}
	}
	return &f
}
