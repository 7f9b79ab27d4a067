package recovery

import (
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// settling is the time in which a claimant makes no job: until every agent that is alive has
// claimed, and every claim of an agent that ended before is gone with its lease. Nodes that all
// come back from their disks cannot know whether others went on without them. A store that is set
// back to a moment in which the job was claimed shows old claims.
type settling struct {
	cluster uint64
	rev     int64 // the newest that was read
	until   time.Time
}

// slack is how much longer than a lease it lasts: leases end within a second.
const slack = time.Second

// missed begins settling anew with the next read: a store that did not answer for a time, or ended the
// lease of the claim, may have been set back to what this claimant saw before.
func (x *settling) missed() { x.until = time.Time{} }

// read takes in what the store shows, and reports whether it is another one than before, or was set
// back. Settling begins anew then, and when the store is read for the first time.
func (x *settling) read(s *rendezvous.Snapshot, lease time.Duration) (lost bool) {
	lost = x.cluster != 0 && (x.cluster != s.Cluster || x.rev > s.Rev)
	x.cluster, x.rev = s.Cluster, s.Rev
	if lost || x.until.IsZero() {
		x.until = time.Now().Add(lease + slack)
	}
	return lost
}

// left is how much of it is left.
func (x *settling) left() time.Duration { return time.Until(x.until) }
