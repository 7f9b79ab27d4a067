package joining

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/refusal"
	"github.com/elasticd/elastic/internal/recovery"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// requestLimit is the limit of a request while the store has lost the job. A node that is in no job
// must notice that the store is away, and a claimant must read the claims again.
const requestLimit = 10 * time.Second

// storeBehind is the error that the store is behind what this node or another one has seen of the
// job.
type storeBehind struct{ seen rendezvous.Snapshot }

func (storeBehind) Error() string { return "the store is behind what nodes have seen of the job" }

// checkStore returns storeBehind if the store shows less than this node remembers, or if other
// nodes claim the job.
//
// It returns nil if this node is late: members of the World in the store answer, are registered, do
// not claim, and can go on without what only this node remembers. The job then goes on. Its next
// generation is above the one that this node registers with, and this node offers its checkpoint.
func (j *Joiner) checkStore(ctx context.Context, s *rendezvous.Snapshot) error {
	if s.Job == nil || s.Claimed(s.Job) {
		return storeBehind{*s}
	}
	name, unlock, err := j.name(ctx)
	if err != nil {
		return nil // lockName reports the error
	}
	c, err := j.Disk.Recall(name)
	unlock()
	if err != nil || c == nil {
		return err
	}
	if !c.Ahead(s) {
		j.state.late = c.PassedOver(s)
		return nil
	}
	if c.Outranks(s) {
		if removed, err := j.requests.Removed(ctx, c.Job.UID); removed || err != nil {
			return err
		}
	}
	if s.Job.UID == c.Job.UID {
		if j.state.late, err = j.comesLate(ctx, s, name); j.state.late || err != nil {
			return err
		}
	}
	return storeBehind{*s}
}

// openPeers lets this node talk to the other nodes of the job.
func (j *Joiner) openPeers(ctx context.Context, s *rendezvous.Snapshot) error {
	secret, err := rendezvous.ReadSecret(ctx, j.Store, j.Job.Name, s.Job.UID)
	if err == nil {
		j.Peers.Open(secret, j.Job.Name, s.Job.UID)
		j.state.peersOf = s.Job.UID
	}
	return err
}

// joinLost joins a job for which the store is behind. A node that was in the job claims it. Another
// node makes it, if the store has none, no node claims it, and no other node of this host remembers
// it.
func (j *Joiner) joinLost(ctx context.Context, s *rendezvous.Snapshot) (*event.Entered, error) {
	name, unlock, err := j.name(ctx)
	if errors.Is(err, refusal.ErrLocked) {
		e := over(1, &refusal.NameTaken{Node: j.Node, Where: "another agent on this host"})
		return &e, nil
	}
	if err != nil {
		e := over(125, err)
		return &e, nil
	}
	defer unlock() // a claimant holds the name only while it claims
	c, err := j.ownClaim(ctx, name, s)
	if err != nil {
		e := over(125, err)
		return &e, nil
	}
	if c != nil && c.Phase != rendezvous.Done { // a job that is done is not claimed
		c.Behind = c.Ahead(s)
		_, err := j.recovery().Reclaim(ctx, *c, j.claiming(ctx))
		if !errors.Is(err, store.ErrMoved) {
			j.state.claimed = j.state.claimed || err == nil
			return nil, err
		}
	}
	if s.Job != nil {
		return nil, j.awaitRemade(ctx, s, name)
	}
	if j.state.job.UID != "" { // the data here is of that job alone
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		gone, err := j.requests.Removed(ctx, j.state.job.UID)
		if err == nil && gone {
			e := over(1, refusal.ErrRemoved)
			return &e, nil
		}
		return nil, hindrance{cmp.Or(err, fmt.Errorf("job %s is no longer in the store", j.Job.Name))}
	}
	return nil, j.makeJob(ctx, name)
}

// ownClaim returns what this node claims; nil: nothing. If others claim a job that it left, and the job
// that it is in now never ran or was removed, the node goes back to the claimed one.
func (j *Joiner) ownClaim(
	ctx context.Context, name string, s *rendezvous.Snapshot,
) (*rendezvous.Claim, error) {
	c, err := j.Disk.Recall(name)
	if err != nil || len(s.Claims) == 0 {
		return c, err
	}
	was := s.ClaimedOf(j.mayGoBackTo(name))
	if was == nil {
		return c, nil
	}
	if c != nil && c.Ran() {
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		if removed, err := j.requests.Removed(ctx, c.Job.UID); err != nil || !removed {
			return c, nil // to claim it asks the store once more
		}
	}
	if err := j.Disk.TakeBack(name, *was); err != nil {
		return nil, err
	}
	return j.Disk.Recall(name)
}

// mayGoBackTo returns the earlier jobs to which this node may go back. An agent that has opened the data
// of a job stays with it.
func (j *Joiner) mayGoBackTo(name string) []rendezvous.Earlier {
	if j.state.unlock != nil {
		return nil
	}
	return j.Disk.Earlier(name)
}

// awaitRemade waits until the job was made again, or no node claims it any more. Claims may end
// because the store stalled or was set back, so it then waits until living nodes have claimed
// again.
func (j *Joiner) awaitRemade(ctx context.Context, s *rendezvous.Snapshot, name string) error {
	uid := s.Job.UID
	remade := func(s *rendezvous.Snapshot) bool { return s.Job == nil || s.Job.UID != uid }
	text := fmt.Sprintf("the server is behind what nodes have seen of job %s: waiting until they make it again",
		j.Job.Name) + j.blankText(s.Claims, name)
	err := j.await(ctx, text, func(s *rendezvous.Snapshot) bool { return remade(s) || !s.Claimed(s.Job) })
	if err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, j.Settle)
	defer cancel()
	// If no node claims it again within the limit, the store counts as it is.
	_ = j.await(limit, "", func(s *rendezvous.Snapshot) bool { return remade(s) || s.Claimed(s.Job) })
	return ctx.Err()
}

// recovery returns what claims the job for this node.
func (j *Joiner) recovery() *recovery.Recovery {
	return &recovery.Recovery{Store: j.Store, Job: j.Job, Disk: j.Disk, LeaseTTL: j.LeaseTTL,
		Limit: j.StoreCutLimit, Go: j.Go}
}

// claiming returns a function that tells the user which nodes are waited for.
func (j *Joiner) claiming(ctx context.Context) func(string) {
	return func(text string) { j.Send(ctx, event.Claiming{Text: text}) }
}

// isBack reports whether the store has a job of that name.
func isBack(s *rendezvous.Snapshot) bool { return s.Job != nil }

// await follows the job and the claims until the condition holds.
func (j *Joiner) await(ctx context.Context, text string, until func(*rendezvous.Snapshot) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := follow.Reader{Store: j.Store, Job: j.Job.Name, Members: new(follow.MemberCache)}
	for s := range r.Follow(ctx, follow.ScopeClaims) {
		switch {
		case s.Err != nil:
		case until(&s.Snapshot):
			return nil
		case text != "" && text != j.state.waitingFor: // no message if the first update ends the wait
			j.state.waitingFor = text
			j.Send(ctx, event.Claiming{Text: text})
		}
	}
	return ctx.Err()
}

// adopt continues as the node that this one was in the job before its store was lost. If that job
// never ran, the node is new to the job that took its place, which may have other settings or
// another program.
func (j *Joiner) adopt(s *rendezvous.Snapshot) error {
	c, err := j.Disk.Recall(j.state.node)
	if err != nil {
		return err
	}
	j.state.joined = j.state.joined && c != nil && c.Ran()
	job := *s.Job
	if job.Twin(&j.state.job) { // the data of a twin goes on like that of a predecessor
		job.Supersede(&j.state.job)
	}
	if err := j.Workers.AdoptJob(job); err != nil {
		return err
	}
	j.state.job, j.state.claimed = *s.Job, true
	_, err = j.remember(s) // the data belongs to that job now, and so must the claim
	return err
}

// cannotWrite handles an error of writing to disk what this node must know of the job. If the disk is full
// or fails, a node that was in the job tries again, and says so once. Any other error ends the agent.
func (j *Joiner) cannotWrite(ctx context.Context, err error) (*event.Entered, error) {
	passes := slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO},
		func(e error) bool { return errors.Is(err, e) })
	if !passes || j.state.job.UID == "" {
		e := over(125, err)
		return &e, nil
	}
	text := fmt.Sprintf("this node cannot write to its disk what it must know of job %s: %v; trying again",
		j.Job.Name, err)
	if text != j.state.waitingFor {
		j.state.waitingFor = text
		j.Send(ctx, event.Claiming{Text: text})
	}
	return nil, hindrance{err}
}

// remade returns the message that the job was made again, on a node that was in it.
func (j *Joiner) remade(s *rendezvous.Snapshot) []string {
	if !j.state.claimed {
		return nil
	}
	j.state.claimed = false
	from := "from scratch: no node that claimed it had a checkpoint"
	if h := s.Head; h.Number > 0 {
		from = fmt.Sprintf("from checkpoint %d", h.Number)
		if h.Step != nil {
			from += fmt.Sprintf(" (step %d)", *h.Step)
		}
	}
	return []string{fmt.Sprintf("the server lost job %s; it was made again and goes on %s", j.Job.Name, from)}
}

// remember writes what this node would claim, and returns the jobs that it gave up. The read of the job
// shows no spares, so it keeps those that the node knew of in this World.
func (j *Joiner) remember(s *rendezvous.Snapshot) (gaveUp []schema.UID, err error) {
	was, err := j.Disk.Recall(j.state.node)
	if err != nil {
		return nil, err
	}
	c := rendezvous.NewClaim(j.state.node, *s.Job, s.Wish, s.World)
	if was != nil && was.Job.UID == c.Job.UID && was.CompareWorlds(&c) == 0 {
		c.Spares = was.Spares
	}
	c.Known, c.Generation = s.Head, max(c.Generation, s.Fence)
	c.Cluster, c.StoreRev = s.Cluster, s.Rev
	c.GaveUp = rendezvous.GivenUp(j.Disk.Earlier(j.state.node))
	return c.GaveUp, j.Memory.Keep(c, j.Disk.Remember)
}

// rememberNew is remember for a node that left an earlier job and is new to this one. If this one is lost
// before the node has joined it, its claim says which job it gave up.
func (j *Joiner) rememberNew(s *rendezvous.Snapshot) error {
	if c, err := j.Disk.Recall(j.state.node); err != nil || c != nil || len(j.Disk.Earlier(j.state.node)) == 0 {
		return err
	}
	_, err := j.remember(s)
	return err
}

// Reclaim claims the job until the store has it again, or a job that succeeds it. If the store has
// an unrelated job of that name, this node waits until an operator removes that one.
func (j *Joiner) Reclaim(ctx context.Context, c rendezvous.Claim) event.Event {
	for {
		job, err := j.recovery().Reclaim(ctx, c, j.claiming(ctx))
		if err != nil || job.UID == c.Job.UID || job.Replaces(&c.Job) {
			return event.Reclaimed{Job: job, Err: err}
		}
		if removed, err := j.requests.Removed(ctx, c.Job.UID); err == nil && removed {
			return event.Reclaimed{Job: job, Err: store.ErrMoved}
		}
		text := fmt.Sprintf(
			"the server holds another job %s now; workers of this one go on, and nothing is saved",
			j.Job.Name)
		err = j.await(ctx, text,
			func(s *rendezvous.Snapshot) bool { return s.Job == nil || s.Job.UID != job.UID })
		if err != nil {
			return event.Reclaimed{Job: job, Err: err}
		}
	}
}
