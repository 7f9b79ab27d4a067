package plan

import "time"

// Timeouts are the limits of the plan that are no settings of a job.
type Timeouts struct {
	Barrier time.Duration // a forming world then goes on without the missing members
	Verdict time.Duration // a failure waits so long for the verdict on a suspicion
	Cause   time.Duration // so long after a victim's failure another failure can be its cause
	Nearby  time.Duration // a suspicion this soon after a failure belongs to it
	Slack   time.Duration // a planned stop may take this much longer than the grace
	Missing time.Duration // a spare is reported lost so long after its registration ended
}

// DefaultTimeouts are those of docs/PROTOCOL.md.
var DefaultTimeouts = Timeouts{Barrier: 30 * time.Second, Verdict: 1500 * time.Millisecond,
	Nearby: 50 * time.Millisecond, Cause: 2 * time.Second, Slack: 2 * time.Second, Missing: 5 * time.Second}
