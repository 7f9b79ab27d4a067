package plan

import "time"

// Timeouts are the limits of Plan that are not the job's.
type Timeouts struct {
	Barrier time.Duration // after which a forming world goes on without the missing members
	Verdict time.Duration // that a failure waits for an open suspicion
	Cause   time.Duration // within which a failure that is no victim is the cause of one that is
	Nearby  time.Duration // within which a suspicion that opens belongs to the failure
	Slack   time.Duration // that a planned stop may take beyond the grace
	Missing time.Duration // in which a node that is no member may be back after its registration ended
}

// DefaultTimeouts are those of docs/PROTOCOL.md.
var DefaultTimeouts = Timeouts{Barrier: 30 * time.Second, Verdict: 1500 * time.Millisecond,
	Nearby: 50 * time.Millisecond, Cause: 2 * time.Second, Slack: 2 * time.Second, Missing: 5 * time.Second}
