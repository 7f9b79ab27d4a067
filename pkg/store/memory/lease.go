package memory

import (
	"maps"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// lease is one lease. Its timer checks, under the lock, whether it has expired.
type lease struct {
	id      store.Lease
	ttl     time.Duration
	expires time.Time
	timer   *time.Timer
	keys    map[string]bool
}

func (c *Cluster) grant(ttl time.Duration) (*lease, error) {
	if c.full {
		return nil, ErrNoSpace
	}
	seconds := (ttl + time.Second - 1) / time.Second
	c.lastLease++
	return c.newLease(c.lastLease, max(seconds*time.Second, MinTTL)), nil
}

func (c *Cluster) newLease(id store.Lease, ttl time.Duration) *lease {
	l := &lease{id: id, ttl: ttl, keys: map[string]bool{}, expires: time.Now().Add(ttl)}
	l.timer = time.AfterFunc(ttl, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.state == up {
			c.expire(l)
		}
	})
	c.leases[id] = l
	return l
}

func (c *Cluster) renew(id store.Lease) error {
	l := c.leases[id]
	if l == nil {
		return store.ErrLeaseLost
	}
	l.extend()
	return nil
}

func (c *Cluster) timeToLive(id store.Lease) (left, granted time.Duration, err error) {
	l := c.leases[id]
	if l == nil {
		return 0, 0, store.ErrLeaseLost
	}
	return max(0, time.Until(l.expires)).Truncate(time.Second), l.ttl, nil
}

func (l *lease) extend() {
	l.expires = time.Now().Add(l.ttl)
	l.timer.Reset(l.ttl)
}

// expire revokes l if its time has passed.
func (c *Cluster) expire(l *lease) {
	if c.leases[l.id] != l {
		return
	}
	if left := time.Until(l.expires); left > 0 {
		l.timer.Reset(left)
		return
	}
	c.revoke(l.id)
}

// revoke deletes the keys of a lease in one revision.
func (c *Cluster) revoke(id store.Lease) {
	l := c.leases[id]
	if l == nil {
		return
	}
	l.timer.Stop()
	n := store.Change{Rev: c.rev + 1}
	for _, k := range slices.Sorted(maps.Keys(l.keys)) {
		n.Events = append(n.Events, c.remove(k, "", n.Rev)...)
	}
	delete(c.leases, id)
	c.commit(n)
}

func (c *Cluster) detach(e store.Entry) {
	if l := c.leases[e.Lease]; l != nil {
		delete(l.keys, e.Key)
	}
}

// extendLeases extends each lease to its full duration, as a cluster does when it starts.
func (c *Cluster) extendLeases() {
	for _, id := range slices.Sorted(maps.Keys(c.leases)) {
		c.leases[id].extend()
	}
}

// expireLeases ends the leases that expired while the cluster was frozen.
func (c *Cluster) expireLeases() {
	for _, id := range slices.Sorted(maps.Keys(c.leases)) {
		c.expire(c.leases[id])
	}
}
