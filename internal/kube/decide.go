// Package kube keeps the np of a job and the replicas of its StatefulSet equal, in both directions.
// It also shows the job in Kubernetes, as a ConfigMap with its status and as Kubernetes events.
package kube

import (
	"fmt"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Action says which side changes.
type Action int

const (
	None        Action = iota
	SetNP              // set np to the replicas
	SetReplicas        // set the replicas to np
	Agree              // both are equal: record that
)

// Step is one change, with a sentence for the user if needed.
type Step struct {
	Action Action
	N      int
	Note   string
}

// Decide compares the replicas of a StatefulSet with np of its job. agreed is the size of both when
// they were last equal; 0: never. The side that changed since then wins. If both changed, the
// StatefulSet wins, and Note says so. The replicas of a job with a range need no wish, because pods
// beyond the range are spares.
func Decide(s *rendezvous.Snapshot, replicas, agreed int) Step {
	np := s.Wish.NP
	switch {
	case !s.Job.Limits.Exact:
		return Step{Note: outside(s.Job.Limits, replicas)}
	case replicas == np && agreed == np:
		return Step{}
	case replicas == np:
		return Step{Action: Agree, N: np}
	case agreed != 0 && replicas == agreed:
		return Step{Action: SetReplicas, N: np}
	case replicas < 1: // without pods the job keeps its size
		return Step{Note: fmt.Sprintf("replicas is 0: the job keeps np=%d and waits for pods", np)}
	case agreed != 0 && np != agreed:
		return Step{Action: SetNP, N: replicas,
			Note: fmt.Sprintf("replicas was set to %d and np to %d; replicas wins", replicas, np)}
	}
	return Step{Action: SetNP, N: replicas}
}

// outside explains replicas outside of the range of a job.
func outside(l rendezvous.Limits, replicas int) string {
	switch {
	case replicas > l.Max:
		return fmt.Sprintf("replicas is %d and the job takes at most %d: the other pods stand by as spares",
			replicas, l.Max)
	case replicas < l.Min:
		return fmt.Sprintf("replicas is %d and the job needs at least %d: training waits", replicas, l.Min)
	}
	return ""
}
