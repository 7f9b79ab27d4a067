package hang

import "time"

// Lookout decides when the ranks of a world that makes no step are looked at. It is told of steps
// and of time, and nothing else: a job that never reported a step is never looked at. To look costs
// no worker anything, so that a look at a healthy job (a long validation, a download) does no harm.
//
//	never     no step was ever reported, or Least is 0
//	before    steps were reported, in this generation none or one: after beforeFirst
//	between   after lookSteps times the usual time of a step, and at least Least
type Lookout struct {
	Least   time.Duration
	Earlier bool // steps were reported before this generation

	usual time.Duration // between two reports
	steps bool          // this generation reported a step
	quiet time.Duration // since the last step, as this process measured it
	last  time.Duration // quiet at the last look
	looks int           // since the last step
}

const (
	lookSteps   = 10
	beforeFirst = 5 * time.Minute
	// A world that stays quiet is looked at again after twice the time, because what the ranks do
	// may change.
	lookAgain = 2
)

// Step takes in that steps were reported, and the usual time between two reports; 0: not known.
func (l *Lookout) Step(usual time.Duration) {
	l.steps, l.usual, l.quiet, l.last, l.looks = true, usual, 0, 0, 0
}

// Quiet takes in that no step was reported for another d. Time for which the agent did not run does
// not count: d is at most the time that it meant to wait.
func (l *Lookout) Quiet(d time.Duration) { l.quiet += d }

// Since returns how long no step was reported.
func (l *Lookout) Since() time.Duration { return l.quiet }

// Limit returns how long the world may make no step; 0: any time.
func (l *Lookout) Limit() time.Duration {
	switch {
	case l.Least == 0, !l.steps && !l.Earlier:
		return 0
	case l.usual == 0:
		return max(beforeFirst, l.Least)
	}
	return max(l.Least, lookSteps*l.usual)
}

// Due reports whether the ranks are to be looked at now.
func (l *Lookout) Due() bool {
	limit := l.Limit()
	if limit == 0 {
		return false
	}
	if l.looks > 0 {
		return l.quiet >= lookAgain*l.last
	}
	return l.quiet >= limit
}

// Looked takes in that the ranks were looked at.
func (l *Lookout) Looked() { l.last, l.looks = l.quiet, l.looks+1 }
