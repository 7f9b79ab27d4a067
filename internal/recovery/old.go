package recovery

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// oldClaims are the claims of others that the store showed when it was first read. A store that was
// set back to a moment in which the job was claimed shows claims of agents that ended since: each
// counts when it is written again, or when it has outlived a lease.
type oldClaims struct {
	cluster uint64
	rev     int64 // the newest that was read
	revs    map[string]int64
	until   time.Time
}

// slack is how much longer than its lease a claim is waited for: leases end within a second.
const slack = time.Second

// read takes in what the store shows. It reports whether the store is another one than before, or
// was set back: what it shows now is old.
func (o *oldClaims) read(s *rendezvous.Snapshot, lease time.Duration) bool {
	same := o.revs != nil && o.cluster == s.Cluster && o.rev <= s.Rev
	o.cluster, o.rev = s.Cluster, s.Rev
	if same {
		return false
	}
	o.revs, o.until = map[string]int64{}, time.Now().Add(lease+slack)
	for _, c := range s.Claims {
		o.revs[c.Node] = c.Rev
	}
	return true
}

// without are the claims that count now.
func (o *oldClaims) without(claims []rendezvous.Claim) []rendezvous.Claim {
	if !time.Now().Before(o.until) {
		return claims
	}
	return slices.DeleteFunc(slices.Clone(claims), func(c rendezvous.Claim) bool {
		rev, old := o.revs[c.Node]
		return old && rev == c.Rev
	})
}
