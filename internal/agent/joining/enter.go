package joining

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/version"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// hindrance is a reason not to join that does not come from the server. It may pass, so the node
// tries again.
type hindrance struct{ error }

func (e hindrance) Unwrap() error { return e.error }

// joinState is the state that the agent keeps between two attempts to join.
type joinState struct {
	node   string
	unlock func()
	logs   string
	job    rendezvous.Job // the job whose data this node keeps; without a uid: none yet
	joined bool           // this agent was registered before
	// lockUntil is how long to wait for the lock of the given node; zero: it was not taken so far.
	lockUntil time.Time

	waitingFor string    // the last message about this node's disk
	lostSince  time.Time // since when the server does not have the job of this node
	// movedAside: what this node had of an earlier job is out of the way, and brought is what it
	// brings of that; nil: nothing.
	movedAside bool
	brought    *rendezvous.Brought
	secret     []byte     // of the job of peersOf
	endedWorld int64      // revision of the ended world that was there when this agent came
	hasRead    bool       // the first read of the job is done
	peersOf    schema.UID // the job whose secret Peers has; it may be made again before this node joins
	warned     bool       // the user was told why this node stays out
	// lastAsked is the node that was asked last whether it reaches this one. firstMute is the first
	// node that did not answer this question after the last one that answered it; "": none.
	lastAsked, firstMute string
}

// Enter joins the job. The node goes from state Outside to Spare.
func (j *Joiner) Enter(ctx context.Context, a message.Enter) message.Event {
	contact := func() (context.Context, context.CancelFunc) {
		if a.Again || j.ConnectTimeout == 0 {
			return context.WithCancel(ctx)
		}
		return context.WithTimeout(ctx, j.ConnectTimeout)
	}
	limit, cancel := contact()
	defer cancel()
	var last error
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		e, err := j.tryEnter(limit)
		if e != nil {
			return *e
		}
		switch {
		case err == nil || store.Moved(err):
			last = hindrance{errors.New("other nodes kept changing the job")}
		case errors.As(err, new(hindrance)) || last == nil || limit.Err() == nil:
			// Otherwise err only says that the limit has passed, and last is the reason.
			last = err
		}
		if store.Refused(err) && !errors.Is(err, store.ErrLeaseLost) {
			return over(1, err)
		}
		wait = min(wait, longestPause(err))
		select {
		case <-limit.Done():
			if ctx.Err() != nil {
				return nil
			}
			if way := (hindrance{}); errors.As(last, &way) {
				return *refused(problem.New(problem.Timeout, "this node did not get into the job within %s",
					j.ConnectTimeout).Because("%v", way.error).Of(way.error).
					Cure("run it again when that has passed, or with a longer --connect-timeout"))
			}
			p := problem.New(problem.Server, "the server does not answer").Of(last).
				Because("the server does not answer: %v", last).
				Cure("check that it runs, and that --server is right")
			p.Status = problem.Timeout.Status()
			return *refused(p)
		case <-time.After(wait):
		}
	}
}

// longestPause is the longest pause before the next attempt to join after err.
func longestPause(err error) time.Duration {
	if err == nil || store.Moved(err) || errors.As(err, new(hindrance)) {
		return time.Second
	}
	return store.Again // the store did not answer
}

// over returns the answer to Enter with which the agent ends.
func over(status int, err error) message.Entered {
	return message.Entered{Over: &message.Result{Status: status, Err: err}}
}

// refused is over with an error for the user.
func refused(p *problem.Error) *message.Entered {
	e := over(p.Status, p)
	return &e
}

// tryEnter makes one attempt to join, from a read of the job to the registration. If it returns
// nothing, or store.ErrMoved, the caller tries again.
func (j *Joiner) tryEnter(ctx context.Context) (*message.Entered, error) {
	s, err := j.reader().ReadJob(ctx)
	if schema.Unreadable(err) {
		return nil, hindrance{err} // the record may be repaired; nothing is changed until then
	} else if err != nil {
		return nil, err
	}
	j.noteEnded(&s)
	if e, err := j.checkDisk(ctx, &s); e != nil || err != nil {
		return e, err
	}
	if s.Job == nil {
		return nil, j.create(ctx)
	}
	if w := s.World; w != nil && w.Phase.Ended() && w.Attempt == s.Job.Attempt {
		return j.enterEnded(ctx, &s)
	}
	if j.asksAll(&s) {
		if s.Nodes, err = j.readNodes(ctx, store.Below(j.Job.Name.Nodes())); err != nil {
			return nil, err
		}
	}
	if len(s.Nodes) == 0 && s.World != nil && j.another(&s) {
		return nil, j.beginAnew(ctx, &s)
	}
	if err := j.fits(ctx, &s); errors.As(err, new(*message.DiffersError)) && atRest(&s) {
		return j.resettle(ctx, &s, err)
	} else if errors.As(err, new(*message.DiffersError)) || problem.Is(err, problem.JobDiffers) {
		e := over(2, err)
		return &e, nil
	} else if err != nil {
		return nil, err
	}
	if err := j.placeTaken(s.Nodes); err != nil {
		return nil, hindrance{err}
	}
	replaces, e, err := j.lockName(ctx, &s)
	if e != nil || err != nil {
		return e, err
	}
	if j.state.peersOf != s.Job.UID {
		if err := j.openPeers(ctx, &s); err != nil {
			return nil, err
		}
	}
	if err := j.unreached(ctx); err != nil {
		return nil, err
	}
	return j.join(ctx, &s, replaces)
}

// fits fails if this node, which was not in the job before, has other settings or another program.
func (j *Joiner) fits(ctx context.Context, s *rendezvous.Snapshot) error {
	if j.state.joined {
		return nil
	}
	if diff := message.Settings(s.Job, &j.Job, j.Given); len(diff) > 0 {
		return &message.DiffersError{Settings: diff}
	}
	return j.checkProgram(ctx, s)
}

// join registers this node, as a new incarnation on its own lease.
func (j *Joiner) join(ctx context.Context, s *rendezvous.Snapshot,
	replaces membership.Incarnation) (*message.Entered, error) {
	// An earlier agent of this node may have been killed a moment ago. End its processes first.
	if err := j.Workers.Sweep(ctx); err != nil {
		return nil, hindrance{fmt.Errorf("end what an earlier agent left: %w", err)}
	}
	seen, err := j.Disk.LastGeneration(j.state.node)
	if err != nil {
		e := over(125, err)
		return &e, nil
	}
	if err := j.remember(s); err != nil {
		return j.cannotWrite(ctx, err)
	}
	n := membership.Node{
		Ref: membership.Ref{Node: j.state.node, Incarnation: membership.NewIncarnation(),
			Address: j.Peers.Here(), Role: j.Role},
		Attempt: s.Job.Attempt, Host: j.Disk.HostID(), Machine: j.Machine, Slots: s.Job.Slots,
		LastGeneration: seen, Since: time.Now(), Program: j.Job.Origin.Digest(), Place: j.Place,
		Version: version.String()}
	said := j.askOfMachine(ctx, s, &n)
	if err := j.commitOwn(ctx, s, n); err != nil {
		return nil, err
	}
	lease, ttl, err := j.registry.Grant(ctx, j.LeaseTTL)
	if err != nil {
		return nil, err
	}
	n.Lease = lease
	warms := trains(s)
	n.Rev, err = j.registry.Join(ctx, membership.Joining{Node: n, JobRev: s.Job.Rev, Generation: s.Fence,
		Replaces: replaces, OtherProgram: s.OtherProgram(&n), Warms: warms, Also: j.bringing()})
	if err != nil {
		_ = j.Store.Revoke(ctx, lease) // else it expires
		return nil, err
	}
	e := &message.Entered{Node: n, Job: *s.Job, Head: s.Head, Fence: s.Fence, TTL: ttl,
		Warms: warms, Logs: strings.TrimSuffix(j.state.logs, "/")}
	e.Nodes, e.Before = j.countNodes(ctx, n.Node)
	if !j.state.joined {
		e.Lines = append(append(j.greeting(s), said...), j.bringText()...)
	}
	j.state.joined, j.state.job, j.state.warned, j.state.firstMute = true, *s.Job, false, ""
	return e, nil
}

// bringing returns the writes that tell the others which checkpoint this node brings. They stay until the
// first World, also if this node leaves, but count only while it is registered.
func (j *Joiner) bringing() []store.Write {
	b := j.state.brought
	if b == nil {
		return nil
	}
	return []store.Write{store.Put(j.Job.Name.Brought(j.state.node), schema.Encode(*b))}
}

// greeting says how large the job is, and which of the given settings are not used.
func (j *Joiner) greeting(s *rendezvous.Snapshot) []string {
	job := s.Job
	np, size := fmt.Sprint(s.Wish.NP), fmt.Sprint(job.Workers(s.Wish.NP))
	if l := job.Limits; !l.Exact && l.Min != l.Max {
		np, size = l.String(), fmt.Sprintf("%d:%d", job.Workers(l.Min), job.Workers(l.Max))
	}
	sum := fmt.Sprintf("np=%s nodes x %s = world size %s", np, phrase.Count(job.Slots, "worker"), size)
	if job.Roles != nil {
		sum = fmt.Sprintf("np=%s nodes, %s, %s", np, phrase.Count(len(job.Roles.Servers), "server"),
			phrase.Count(job.Workers(s.Wish.NP), "trainer"))
	}
	lines := []string{fmt.Sprintf("job %s: %s; this node is %s; logs in %s/", job.Name, sum, j.state.node,
		strings.TrimSuffix(j.state.logs, "/"))}
	if !job.Origin.SameCommand(j.Job.Origin) {
		lines = append(lines, fmt.Sprintf("this node runs another program than job %s: `%s`, and not `%s`",
			job.Name, strings.Join(j.Job.Origin.Command, " "), strings.Join(job.Origin.Command, " ")))
	}
	given := j.Job.Limits
	differs := given != job.Limits
	if given.Exact && job.Limits.Exact { // the wish may have changed since
		differs = given.Max != s.Wish.NP
	}
	if j.Given["np"] && len(job.Hosts) == 0 && differs {
		line := fmt.Sprintf("job %s is at np=%s; --np=%s is not used", job.Name, np, given)
		if given.Exact && job.Limits.Exact {
			line += fmt.Sprintf("; to change it: elastic scale %s --np=%s", job.Name, given)
		}
		lines = append(lines, line)
	}
	return lines
}

// nameTaken is the error of a node whose given name another live node has.
func nameTaken(name, where string) *problem.Error {
	return problem.New(problem.NodeName, "node name %s is taken", name).Because("%s", where).
		Cure("another --node, or none: a free name is found").Detail("node", name)
}

// lockName takes a node name: its lock on this host, if no other host has a live registration of
// it. It returns the incarnation that this one replaces.
func (j *Joiner) lockName(
	ctx context.Context, s *rendezvous.Snapshot,
) (membership.Incarnation, *message.Entered, error) {
	if j.state.unlock != nil { // this agent has a name already
		replaced, err := j.replaceOwn(ctx)
		return replaced, nil, err
	}
	for k := 1; ; k++ {
		name := j.candidate(k)
		unlock, err := j.lock(ctx, name)
		if errors.Is(err, message.ErrLocked) && !j.NodeGiven {
			continue
		}
		if errors.Is(err, message.ErrLocked) {
			return "", refused(nameTaken(name, "another agent on this host")), nil
		}
		if err != nil {
			e := over(125, err)
			return "", &e, nil
		}
		n, err := j.registered(ctx, name)
		if err != nil {
			unlock()
			return "", nil, err
		}
		if n != nil && n.Host != j.Disk.HostID() {
			unlock()
			if !j.NodeGiven {
				continue
			}
			if err := j.openPeers(ctx, s); err != nil {
				return "", nil, err
			}
			if a := j.Peers.Probe(ctx, n.Ref); a.Kind == membership.Same || a.Kind == membership.Other {
				return "", refused(nameTaken(name, "its agent answers at "+n.Address)), nil
			}
			// Wait until its lease ends.
			return "", nil, hindrance{fmt.Errorf("node %s is registered at %s and does not answer", name,
				n.Address)}
		}
		committed, err := j.committed(ctx, s)
		if err != nil {
			unlock()
			return "", nil, err
		}
		logs, err := j.Workers.Open(name, *s.Job, committed)
		if err != nil {
			unlock()
			e := over(125, err)
			return "", &e, nil
		}
		j.state.node, j.state.unlock, j.state.logs, j.state.job = name, unlock, logs, *s.Job
		if n != nil {
			return n.Incarnation, nil, j.registry.TakeOver(ctx, *n)
		}
		return "", nil, nil
	}
}
