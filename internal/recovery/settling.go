package recovery

import (
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// settling is the time in which a claimant must not make the job again: until every living agent
// has claimed, and every claim of a dead agent has expired with its lease. It is needed because
// nodes that all restarted cannot know whether other nodes went on without them, and because a
// store that was set back to a time of claims shows old claims.
type settling struct {
	cluster uint64
	rev     int64 // the newest revision read
	until   time.Time
}

// slack is added to the duration of a lease, because a lease ends up to a second late.
const slack = time.Second

// restart makes settling begin again with the next read. A store that did not answer for a time, or
// ended the lease of the claim, may have been set back.
func (x *settling) restart() { x.until = time.Time{} }

// read records the cluster and revision of s. It reports whether the store was replaced or set
// back. Settling begins again then, and at the first read.
func (x *settling) read(s *rendezvous.Snapshot, lease time.Duration) (lost bool) {
	lost = x.cluster != 0 && (x.cluster != s.Cluster || x.rev > s.Rev)
	x.cluster, x.rev = s.Cluster, s.Rev
	if lost || x.until.IsZero() {
		x.until = time.Now().Add(lease + slack)
	}
	return lost
}

// remaining returns the time until the claimant may make the job again.
func (x *settling) remaining() time.Duration { return time.Until(x.until) }
