package recovery

import (
	"context"
	"errors"
	"fmt"
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

// Recovery claims one job for one node.
type Recovery struct {
	Store    store.Store
	Job      rendezvous.Job // name of the job, and the settings of this agent
	Disk     Disk
	LeaseTTL time.Duration
	Limit    time.Duration  // after this time slow nodes are not waited for
	Go       func(f func()) // runs f in a goroutine that the caller waits for at its end
}

// Disk is the part of this node's disk that a claim reports.
type Disk interface {
	// LastGeneration returns the highest generation that the node ever recorded.
	LastGeneration(node string) (schema.Generation, error)
	// Salvage returns the checkpoints on the disk (checkpoint.Salvage).
	Salvage(ctx context.Context, node string, k checkpoint.Known) (checkpoint.Salvaged, error)
}

const (
	// refreshEvery is how often the disk is read again, because workers go on and save while the
	// job is claimed.
	refreshEvery = 10 * time.Second
	// requestLimit is how long the claimant waits for the answer to a request.
	requestLimit = 10 * time.Second
	// retryAfter is when a failed step is tried again, if the store has no change before.
	retryAfter = 200 * time.Millisecond
	// reportAfter is how long the claimant waits for nodes without a message: most nodes claim
	// within moments of the store's return.
	reportAfter = 2 * time.Second
)

// claimant claims a job for which the store is behind, until the job is made again. One goroutine
// owns it.
type claimant struct {
	r        *Recovery
	requests txn.Requests
	registry membership.Registry
	claim    rendezvous.Claim
	tell     func(string) // reports which nodes are waited for, when that changes

	began       time.Time
	limit       time.Time // slow nodes are waited for until then
	refresh     time.Time // when the disk is read again
	retryAt     time.Time // when a failed step is tried again; zero: none failed
	settling    settling
	lease       store.Lease
	stopRenewal context.CancelFunc
	leaseEnded  chan store.Lease  // a lease that the store says is gone
	written     *rendezvous.Claim // the claim as the store has it
	reported    string            // the last message about nodes that are waited for
	unread      string            // the format of the last message about the disk
}

// Reclaim claims the job of c, and returns the job that the store has when the claim is over: one
// that was made again from that of c, another job of its name, or the job of c itself, if this node
// only joined claims of others and those are gone. It returns store.ErrMoved if the job was
// removed.
//
// A claim need only be true when it is written. The first claimant that may do so makes the job
// again, in one transaction, and the others find it.
func (r *Recovery) Reclaim(
	ctx context.Context, c rendezvous.Claim, tell func(string),
) (rendezvous.Job, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &claimant{r: r, claim: c, tell: tell, began: time.Now(), leaseEnded: make(chan store.Lease, 1),
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
	defer k.release(ctx)
	return k.run(ctx)
}

// scope returns what the claimant follows. In a large World only the first ranks decide. For the
// others the job record is enough, because it changes when the job is made again.
func (k *claimant) scope() follow.Scope {
	if k.claim.Decides() {
		return follow.ScopeAll
	}
	return follow.ScopeJob
}

// run follows the store until the claim is over, and returns the job that the store has then.
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
			s = nil // the last snapshot may lack new claims, so nothing is decided by it
		case x.Err != nil:
			k.settling.restart()
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
		case gone := <-k.leaseEnded:
			k.endLease(gone)
		case <-wake.C:
		}
		select { // use the newest update
		case x := <-seen:
			see(x)
		default:
		}
		looked := time.Now()
		if k.retryAt = (time.Time{}); !looked.Before(k.refresh) {
			k.refresh = looked.Add(refreshEvery)
			if s != nil && !k.isOver(s) {
				_ = k.readDisk(ctx) // on an error the claim stays as it is
				s = k.readWhole(ctx, s)
			}
		}
		if s != nil && k.isOver(s) {
			return *s.Job, nil
		}
		if s != nil {
			if k.settling.read(s, k.r.LeaseTTL) {
				k.written = nil // the claim was in another store
			}
			if err := k.step(ctx, s); err != nil {
				k.failed(err)
			}
		}
		wake.Reset(time.Until(k.next(looked)))
	}
}

// failed records that a step failed. The step is tried again after retryAfter, or when the store
// changes.
func (k *claimant) failed(err error) {
	k.retryAt = time.Now().Add(retryAfter)
	if !store.Moved(err) {
		k.settling.restart()
	}
}

// next returns when the claimant must look again: the earliest of its times after looked.
func (k *claimant) next(looked time.Time) time.Time {
	next := k.refresh
	for _, at := range []time.Time{k.limit, k.settling.until, k.retryAt} {
		if at.After(looked) && at.Before(next) {
			next = at
		}
	}
	return next
}

// isOver reports whether s ends the claim. That is so if the store has another job than c's, or if
// this node only joined claims of others and those are gone. If the job was made again and is
// claimed again, the claim stays, because this node may have what the others lack. It also stays while
// a claim of another node replaces the job that the store has: that node may wait for this one.
func (k *claimant) isOver(s *rendezvous.Snapshot) bool {
	c := &k.claim
	switch {
	case s.Job == nil || c.Job.Follows(s.Job.UID) || c.Outranks(s) || s.Outranked(&c.Job):
		return false
	case s.Job.UID != c.Job.UID:
		return !s.Job.Follows(c.Job.UID) || !s.Claimed(s.Job)
	}
	return !c.Behind && s.Whole && !s.Claimed(&c.Job)
}

// readWhole reads the whole job for a claimant that follows less, and whose fellow claimants may be
// gone.
func (k *claimant) readWhole(ctx context.Context, s *rendezvous.Snapshot) *rendezvous.Snapshot {
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

// step writes the claim, and makes the job again if it may be made now.
func (k *claimant) step(ctx context.Context, s *rendezvous.Snapshot) error {
	c := &k.claim
	c.Learn(s)
	if k.written == nil {
		c.Looked = false
	}
	if err := k.put(ctx, s); err != nil {
		return err
	}
	if !c.Looked { // while the claim is there no commit succeeds, so the disk gains none after this read
		if err := k.readDisk(ctx); err != nil {
			return err
		}
		c.Looked = true
		if err := k.put(ctx, s); err != nil {
			return err
		}
	}
	if !c.Decides() {
		return nil // it follows the job record alone: others make the job again
	}
	mine := -1
	for i := range s.Claims {
		if s.Claims[i].Node == c.Node {
			mine = i
		}
	}
	if mine < 0 || s.Claims[mine].Rev != c.Rev {
		if s.Rev < c.Rev {
			return nil // the snapshot is older than the claim
		}
		k.written = nil
		k.settling.restart()
		return fmt.Errorf("the store was set back to before the claim: %w", store.ErrMoved)
	}
	if k.settling.remaining() > 0 {
		return nil
	}
	wait := reclaim.ForAll
	if !time.Now().Before(k.limit) {
		wait = reclaim.ForEnough
	}
	v := reclaim.Decide(s.Claims, c.Job.UID, wait)
	if v.Remake == nil {
		k.reportWait(v)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	_, err := k.requests.Remake(ctx, txn.Remaking{Me: *c, Job: v.Remake, Own: k.r.Job, Seen: s})
	return err
}

// readDisk reads the disk. It does not claim a damaged checkpoint. While slow nodes are waited for,
// an unreadable checkpoint is an error, and is read again. Later the claim is made without it.
func (k *claimant) readDisk(ctx context.Context) error {
	c := &k.claim
	if g, err := k.r.Disk.LastGeneration(c.Node); err == nil {
		c.Generation = max(c.Generation, g)
	}
	found, err := k.r.Disk.Salvage(ctx, c.Node, checkpoint.Known{World: c.World, Order: c.WorldOrder,
		Head: c.Known})
	if err == nil && time.Now().Before(k.limit) {
		err = found.Unread
	}
	if err != nil {
		k.reportUnread("checkpoints on this node cannot be read (%v): trying again", err)
		return err
	}
	k.reportUnread("this node claims it without checkpoints that cannot be read (%v)", found.Unread)
	c.Heads, c.Newest, c.Sequence, c.Parts = found.Committed, found.Newest, found.Sequence, found.Parts
	c.OtherParts = found.Others
	for _, h := range c.Committed() {
		c.LearnCommit(h)
	}
	return nil
}

// reportWait reports for which nodes the job waits.
func (k *claimant) reportWait(v reclaim.Verdict) {
	text := fmt.Sprintf("the server lost job %s; %s", k.r.Job.Name, v.Text())
	if v.Holds != nil && len(v.Missing) == 0 {
		text += fmt.Sprintf(". To begin anew: elastic rm %s", k.r.Job.Name)
	}
	if text != k.reported && time.Since(k.began) > reportAfter {
		k.reported = text
		k.tell(text)
	}
}

// reportUnread reports, once, what happens with checkpoints here that cannot be read.
func (k *claimant) reportUnread(format string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if format != k.unread { // err may name another file each time
		k.unread = format
		k.tell(fmt.Sprintf("the server lost job %s; "+format, k.r.Job.Name, err))
	}
}
