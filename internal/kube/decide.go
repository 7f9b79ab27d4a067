// Package kube keeps the np of a job and the replicas of its StatefulSet equal, in both directions.
// It also shows the job in Kubernetes, as a ConfigMap with its status and as Kubernetes events.
package kube

import (
	"fmt"
	"time"
)

// Sizes has the sizes of both sides. Synced is the size of both when they last agreed.
type Sizes struct {
	Replicas   int
	ReplicasAt time.Time // last edit of replicas
	NP         int       // the wish
	NPAt       time.Time
	Synced     int // 0: never
	Min, Max   int // of the job; equal for an exact job
}

// Exact reports whether the job has one fixed size.
func (s Sizes) Exact() bool { return s.Min == s.Max }

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

// Decide compares the sizes. The side that changed since both agreed wins. If both changed, the
// newer change wins, and Note says so. The replicas of a job with a range need no wish, because
// pods beyond the range are spares.
func Decide(s Sizes) Step {
	if !s.Exact() {
		return Step{Note: outside(s)}
	}
	if s.Replicas == s.NP {
		if s.Synced == s.NP {
			return Step{}
		}
		return Step{Action: Agree, N: s.NP}
	}
	edited, wished := s.Replicas != s.Synced, s.NP != s.Synced
	switch {
	case edited && wished && s.Synced != 0:
		step := newer(s)
		step.Note = fmt.Sprintf("replicas was set to %d and np to %d; the newer wish wins: %d",
			s.Replicas, s.NP, step.N)
		return step
	case s.Synced == 0:
		return newer(s)
	case edited:
		return follow(s)
	default:
		return Step{Action: SetReplicas, N: s.NP}
	}
}

// newer follows the side that changed last. Kubernetes has times in whole seconds, so an edit of
// replicas in the second of the wish counts as later. Zero replicas do not change the job.
func newer(s Sizes) Step {
	if s.Replicas > 0 && !s.ReplicasAt.Before(s.NPAt.Truncate(time.Second)) {
		return follow(s)
	}
	return Step{Action: SetReplicas, N: s.NP}
}

// follow sets the job to the size of the StatefulSet. Without pods the job keeps its size and
// waits.
func follow(s Sizes) Step {
	if s.Replicas == 0 {
		return Step{Note: fmt.Sprintf("replicas is 0: the job keeps np=%d and waits for pods", s.NP)}
	}
	return Step{Action: SetNP, N: s.Replicas}
}

// outside explains replicas outside of the range of a job.
func outside(s Sizes) string {
	switch {
	case s.Replicas > s.Max:
		return fmt.Sprintf("replicas is %d and the job takes at most %d: the other pods stand by as spares",
			s.Replicas, s.Max)
	case s.Replicas < s.Min:
		return fmt.Sprintf("replicas is %d and the job needs at least %d: training waits", s.Replicas, s.Min)
	}
	return ""
}
