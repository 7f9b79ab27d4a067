package joining

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// youngRevision is the revision below which a store may have been made a moment ago.
const youngRevision = 20

// watchLimit is how long a watch is trusted, because it may go silent without an error.
const watchLimit = 20 * time.Second

// makeJob makes the job, unless another node of this host remembers it.
func (j *Joiner) makeJob(ctx context.Context, name string) error {
	if waited, err := j.awaitOtherNode(ctx, name); err != nil || waited {
		return err
	}
	return j.create(ctx, name)
}

// settle sets how long this node waits before it makes a job in s. A store that was just made or
// was just away may have lost the job, and nodes that were in it need time to claim it. The wait
// begins again if the store was replaced or set back.
func (j *Joiner) settle(ctx context.Context, s *rendezvous.Snapshot) {
	state := &j.state
	lost := state.cluster != 0 && (state.cluster != s.Cluster || s.Rev < state.rev)
	state.cluster, state.rev = s.Cluster, s.Rev
	state.storeMissed = state.storeMissed || lost
	if j.Settle == 0 || !lost && !state.notBefore.IsZero() {
		return
	}
	settled, rev := j.settled(ctx)
	until := time.Now().Add(j.Settle)
	if until.Before(state.notBefore) || !state.storeMissed && (s.Rev >= youngRevision || settled) {
		return
	}
	state.notBefore, state.settledFrom = until, 0
	if !settled {
		state.settledFrom = rev + 1
	}
}

// settled reports whether the server has been up long enough for every node to claim, and the
// revision of that read.
func (j *Joiner) settled(ctx context.Context) (settled bool, rev int64) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	r, err := j.Store.Get(ctx, schema.Settled, "")
	return err == nil && r.One() != nil, r.Rev
}

// awaitOtherNode waits while another node of this host remembers the job and it is not there: until
// it is made again, or was removed.
func (j *Joiner) awaitOtherNode(ctx context.Context, name string) (bool, error) {
	for _, c := range j.Disk.Others(name) {
		key := j.Job.Name.Removed(c.Job.UID)
		r, err := j.Store.Get(ctx, key, "")
		if err != nil {
			return false, err
		}
		if r.One() != nil {
			continue
		}
		wait, cancel := context.WithTimeout(ctx, watchLimit)
		defer cancel()
		j.Go(func() {
			for x := range j.Store.Watch(wait, key, "", r.Rev+1) {
				if len(x.Events) > 0 {
					cancel()
				}
			}
		})
		text := fmt.Sprintf(
			"the server lost job %s, and node %s of this machine was in it: waiting until it claims it. "+
				"Start it again (--node=%s), or begin anew with: elastic rm %s", j.Job.Name, c.Node, c.Node,
			j.Job.Name)
		err = j.await(wait, text, isBack)
		if ctx.Err() == nil && wait.Err() != nil {
			err = nil
		}
		return true, err
	}
	return false, nil
}

// create makes the job from scratch. While other nodes claim it, it waits for them without a limit.
func (j *Joiner) create(ctx context.Context, name string) error {
	s, err := j.reader().ReadJob(ctx)
	if err != nil || s.Job != nil {
		return err
	}
	if len(s.Claims) > 0 {
		// Claims end when a store stalls, so their end alone proves nothing.
		j.state.notBefore, j.state.settledFrom = time.Now().Add(j.StoreCutLimit), 0
		earlier := j.mayGoBackTo(name)
		return j.await(ctx, j.claimedText(s.Claims, name), func(s *rendezvous.Snapshot) bool {
			return isBack(s) || len(s.Claims) == 0 || s.ClaimedOf(earlier) != nil
		})
	}
	j.settle(ctx, &s)
	if wait := time.Until(j.state.notBefore); wait > 0 {
		return j.awaitClaims(ctx, wait)
	}
	job := j.Job
	job.UID, job.Attempt, job.Time = schema.UID(rand.Text()), 1, time.Now()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return j.requests.Create(ctx, job)
}

// claimedText says for which nodes this one waits.
func (j *Joiner) claimedText(claims []rendezvous.Claim, name string) string {
	var names []string
	for _, c := range claims {
		names = append(names, c.Node)
	}
	return fmt.Sprintf("the server lost job %s, and %s claimed it: waiting until they make it again",
		j.Job.Name, phrase.List(names)) + j.blankText(claims, name)
}

// blankText tells the user that others may wait for this node, which was in their job and comes without
// its disk.
func (j *Joiner) blankText(claims []rendezvous.Claim, name string) string {
	inIt := func(c rendezvous.Claim) bool { return slices.Contains(c.Members, name) }
	if !slices.ContainsFunc(claims, inIt) {
		return ""
	}
	return fmt.Sprintf(". Node %s was in it, and this disk has nothing of it. If its disk is lost, the "+
		"others go on without it after: elastic ckpt restore %s N", name, j.Job.Name)
}

// awaitClaims waits for nodes of an earlier job of this name: for wait, or, on a new server, until
// it has settled.
func (j *Joiner) awaitClaims(ctx context.Context, wait time.Duration) error {
	limit, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	settled := make(chan struct{})
	if from := j.state.settledFrom; from > 0 {
		j.Go(func() {
			for x := range j.Store.Watch(limit, schema.Settled, "", from) {
				if len(x.Events) > 0 {
					close(settled)
					cancel()
					return
				}
			}
		})
	}
	text := fmt.Sprintf("new server, or it was away: waiting %s in case nodes of an earlier job %s report",
		wait.Round(time.Second), j.Job.Name)
	err := j.await(limit, text, func(s *rendezvous.Snapshot) bool { return isBack(s) || len(s.Claims) > 0 })
	select {
	case <-settled:
		j.state.notBefore, err = time.Now(), nil
	default:
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return err
}
