package recovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/reclaim"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Recovery claims one job of one node.
type Recovery struct {
	Store    store.Store
	Job      rendezvous.Job // its name, and the settings of this agent
	Disk     Disk
	LeaseTTL time.Duration
	Limit    time.Duration  // after it, nodes that are only slow are not waited for
	Go       func(f func()) // runs f beside the caller, which waits for it in the end
}

// Disk is what a claim tells of this node's disk.
type Disk interface {
	// Seen is the highest generation that the node ever noted.
	Seen(node string) (schema.Generation, error)
	// Salvage is the checkpoints that are on it (checkpoint.Salvage).
	Salvage(ctx context.Context, node string, k checkpoint.Known) (checkpoint.Salvaged, error)
}

const (
	// refreshEvery is how often the disk is looked at again: workers go on, and save, while the job
	// is claimed.
	refreshEvery = 10 * time.Second
	// requestLimit is how long a request may be without an answer before the claimant looks again.
	requestLimit = 10 * time.Second
	// retryAfter is when a request that did not succeed is tried again, if no news comes before.
	retryAfter = 200 * time.Millisecond
	// quiet is how long what is waited for is not worth a line: all claim within moments of the
	// store's return.
	quiet = 2 * time.Second
)

// claimant claims a job for which the store is behind, until the store holds it made again. One
// goroutine owns it.
type claimant struct {
	r        *Recovery
	requests txn.Requests
	registry membership.Registry
	claim    rendezvous.Claim
	tell     func(string) // says which nodes are waited for, when that changes

	began    time.Time
	limit    time.Time // nodes that are only slow are waited for until then
	refresh  time.Time // the disk is looked at again
	again    time.Time // what did not succeed is tried again; zero: it did
	settling settling
	lease    store.Lease
	keep     context.CancelFunc
	lapsed   chan store.Lease
	wrote    *rendezvous.Claim // as it is in the store
	reported string            // of the nodes that are waited for
	unread   string            // the format of what was reported of the disk
}

// Reclaim returns the job that the store holds when the claim is over: one that succeeds c's,
// another one of its name, or c's own where this node only joined other claimants and they are
// gone. store.ErrMoved: the job was removed.
//
// Nothing here needs more than a claim to be true when it is written: the first claimant that may
// makes the job again, in one transaction, and the others find it there.
func (r *Recovery) Reclaim(
	ctx context.Context, c rendezvous.Claim, tell func(string),
) (rendezvous.Job, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &claimant{r: r, claim: c, tell: tell, began: time.Now(), lapsed: make(chan store.Lease, 1),
		requests: txn.Requests{Store: r.Store, Job: r.Job.Name}, registry: membership.Registry{Store: r.Store,
			Job: r.Job.Name}}
	asking, done := context.WithTimeout(ctx, requestLimit)
	removed, err := k.requests.Removed(asking, c.Job.UID)
	done()
	if err != nil {
		return rendezvous.Job{}, err
	}
	if removed {
		return rendezvous.Job{}, fmt.Errorf("the job was removed: %w", store.ErrMoved)
	}
	defer k.giveBack(ctx)
	return k.run(ctx)
}

// scope is what the claimant follows. Of a large World its first ranks decide, and for the others
// the job record is enough: it changes when the job is made again.
func (k *claimant) scope() follow.Scope {
	if k.claim.Decides() {
		return follow.ScopeAll
	}
	return follow.ScopeJob
}

func (k *claimant) run(ctx context.Context) (rendezvous.Job, error) {
	reader := follow.Reader{Store: k.r.Store, Job: k.r.Job.Name, Node: k.claim.Node,
		Members: new(follow.MemberCache)}
	seen := reader.Follow(ctx, k.scope())
	k.limit, k.refresh = time.Now().Add(k.r.Limit), time.Now().Add(refreshEvery)
	wake := time.NewTimer(refreshEvery)
	defer wake.Stop()
	var s *rendezvous.Snapshot
	see := func(x follow.Update) {
		switch {
		case schema.Unreadable(x.Err):
			s = nil // what was read before is not all that is claimed: nothing is decided by it
		case x.Err != nil:
			k.settling.missed()
		case x.Err == nil && ctx.Err() == nil:
			s = &x.Snapshot
		}
	}
	for {
		select {
		case <-ctx.Done():
			return rendezvous.Job{}, ctx.Err()
		case x := <-seen:
			see(x)
		case gone := <-k.lapsed:
			k.lapse(gone)
		case <-wake.C:
		}
		select { // decide with the newest
		case x := <-seen:
			see(x)
		default:
		}
		looked := time.Now()
		if k.again = (time.Time{}); !looked.Before(k.refresh) {
			k.refresh = looked.Add(refreshEvery)
			if s != nil && !k.over(s) {
				_ = k.look(ctx) // the claim stays as it is
				s = k.whole(ctx, s)
			}
		}
		if s != nil && k.over(s) {
			return *s.Job, nil
		}
		if s != nil {
			if k.settling.read(s, k.r.LeaseTTL) {
				k.wrote = nil // the claim was in another store
			}
			if err := k.step(ctx, s); err != nil {
				k.failed(err)
			}
		}
		wake.Reset(time.Until(k.next(looked)))
	}
}

// failed takes in that a step did not succeed. It is tried again if no news comes before.
func (k *claimant) failed(err error) {
	k.again = time.Now().Add(retryAfter)
	if !store.Moved(err) {
		k.settling.missed()
	}
}

// next is when a claimant that looked then looks again if no news comes: the earliest of its times
// that were still to come.
func (k *claimant) next(looked time.Time) time.Time {
	next := k.refresh
	for _, at := range []time.Time{k.limit, k.settling.until, k.again} {
		if at.After(looked) && at.Before(next) {
			next = at
		}
	}
	return next
}

// over reports whether s ends the claim: the store holds another job than c's, or this node only
// joined other claimants, and they are gone. Where the job was made again as one that is claimed
// itself, the claim stays: what this node has may be what the others miss.
func (k *claimant) over(s *rendezvous.Snapshot) bool {
	c := &k.claim
	switch {
	case s.Job == nil || c.Job.Follows(s.Job.UID) || c.Outranks(s):
		return false
	case s.Job.UID != c.Job.UID:
		return !s.Job.Follows(c.Job.UID) || !s.Claimed(s.Job)
	}
	return !c.Behind && s.Whole && !s.Claimed(&c.Job)
}

// whole reads everything for a claimant that follows less and may have joined claims that are gone.
func (k *claimant) whole(ctx context.Context, s *rendezvous.Snapshot) *rendezvous.Snapshot {
	if k.claim.Behind || s.Whole {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	now, err := rendezvous.Read(ctx, k.r.Store, k.r.Job.Name)
	if err != nil {
		return s
	}
	return &now
}

// step claims, and makes the job again if that may be done now.
func (k *claimant) step(ctx context.Context, s *rendezvous.Snapshot) error {
	c := &k.claim
	c.Learn(s)
	if k.wrote == nil {
		c.Looked = false
	}
	if err := k.put(ctx, s); err != nil {
		return err
	}
	if !c.Looked { // from the claim on no commit passes: the disk gains nothing after this look
		if err := k.look(ctx); err != nil {
			return err
		}
		c.Looked = true
		if err := k.put(ctx, s); err != nil {
			return err
		}
	}
	mine := -1
	for i := range s.Claims {
		if s.Claims[i].Node == c.Node {
			mine = i
		}
	}
	if mine < 0 || s.Claims[mine].Rev != c.Rev {
		if s.Rev < c.Rev {
			return nil // the news of it is on its way
		}
		k.wrote = nil
		k.settling.missed()
		return fmt.Errorf("the store was set back to before the claim: %w", store.ErrMoved)
	}
	if k.settling.left() > 0 {
		return nil
	}
	wait := reclaim.ForAll
	if !time.Now().Before(k.limit) {
		wait = reclaim.ForEnough
	}
	v := reclaim.Decide(s.Claims, c.Job.UID, wait)
	if v.Remake == nil {
		k.wait(v)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	_, err := k.requests.Remake(ctx, txn.Remaking{Me: *c, Job: v.Remake, Own: k.r.Job, Seen: s})
	return err
}

// look reads the disk. A checkpoint that is damaged is not claimed. What cannot be read is read
// again, as long as nodes that are only slow are waited for; after that the claim is made without it.
func (k *claimant) look(ctx context.Context) error {
	c := &k.claim
	if g, err := k.r.Disk.Seen(c.Node); err == nil {
		c.Generation = max(c.Generation, g)
	}
	found, err := k.r.Disk.Salvage(ctx, c.Node, checkpoint.Known{World: c.World, Head: c.Known})
	if err == nil && time.Now().Before(k.limit) {
		err = found.Unread
	}
	if err != nil {
		k.tellUnread("checkpoints on this node cannot be read (%v): trying again", err)
		return err
	}
	k.tellUnread("this node claims it without checkpoints that cannot be read (%v)", found.Unread)
	c.Heads, c.Newest, c.Sequence, c.Parts = found.Committed, found.Newest, found.Sequence, found.Parts
	c.OtherParts = found.Others
	for _, h := range c.Committed() {
		if h.Number > c.Known.Number {
			c.Known = h
		}
	}
	return nil
}

// wait tells for which nodes the job waits.
func (k *claimant) wait(v reclaim.Verdict) {
	text := ""
	switch {
	case v.Other != "":
		text = fmt.Sprintf(
			"the server lost another job %s; nodes that were in that one claim it, and this node waits for them",
			k.r.Job.Name)
	case v.Holds != nil && len(v.Missing) == 0:
		text = fmt.Sprintf("the server lost job %s; it had checkpoint %d, and no node that claims it "+
			"can read one: waiting for a node that can. To begin anew: elastic rm %s",
			k.r.Job.Name, v.Holds.Number, k.r.Job.Name)
	case len(v.Missing) == 0:
		text = fmt.Sprintf("the server lost job %s; waiting for nodes that know more of it", k.r.Job.Name)
	case v.Holds != nil:
		text = fmt.Sprintf("the server lost job %s; waiting for %s: checkpoint %d is there and nowhere else",
			k.r.Job.Name, strings.Join(v.Missing, ", "), v.Holds.Number)
	default:
		text = fmt.Sprintf("the server lost job %s; waiting for %s, to make it again",
			k.r.Job.Name, strings.Join(v.Missing, ", "))
	}
	if text != k.reported && time.Since(k.began) > quiet {
		k.reported = text
		k.tell(text)
	}
}

// tellUnread tells, once, what becomes of checkpoints here that cannot be read.
func (k *claimant) tellUnread(format string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if format != k.unread { // err may name another file each time
		k.unread = format
		k.tell(fmt.Sprintf("the server lost job %s; "+format, k.r.Job.Name, err))
	}
}
