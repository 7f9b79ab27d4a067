// Package kube keeps the size of a job and the replicas of its StatefulSet equal, in both
// directions, and shows the job in Kubernetes: a ConfigMap with its status, its events as
// Kubernetes events.
package kube

import (
	"fmt"
	"time"
)

// Sizes is what both sides say about one job. Synced is the size that both had when they last
// agreed.
type Sizes struct {
	Replicas   int
	ReplicasAt time.Time // last edit of replicas
	NP         int       // the operator's wish
	NPAt       time.Time
	Synced     int // 0: never
	Min, Max   int // of the job; equal for an exact job
}

// Exact reports whether the job has one size at a time.
func (s Sizes) Exact() bool { return s.Min == s.Max }

// Action says which side follows the other.
type Action int

const (
	None        Action = iota
	SetNP              // the job follows the StatefulSet
	SetReplicas        // the StatefulSet follows the job
	Agree              // both sides are equal: note that
)

// Step is one change, and a sentence for people where there is something to say.
type Step struct {
	Action Action
	N      int
	Note   string
}

// Decide compares the sizes. The side that changed since both agreed wins; if both changed, the
// newer change wins and a note says so. The replicas of a range job need no wish: pods beyond the
// range are spares.
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

// newer follows the side that changed last. Kubernetes tells whole seconds, so an edit of replicas
// in the second of the wish counts as the later one. A StatefulSet of no pods never shrinks the job
// to nothing.
func newer(s Sizes) Step {
	if s.Replicas > 0 && !s.ReplicasAt.Before(s.NPAt.Truncate(time.Second)) {
		return follow(s)
	}
	return Step{Action: SetReplicas, N: s.NP}
}

// follow gives the job the size of the StatefulSet. Without pods the job keeps its size and waits.
func follow(s Sizes) Step {
	if s.Replicas == 0 {
		return Step{Note: fmt.Sprintf("replicas is 0: the job keeps np=%d and waits for pods", s.NP)}
	}
	return Step{Action: SetNP, N: s.Replicas}
}

// outside says what replicas outside of the range of a job mean.
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
