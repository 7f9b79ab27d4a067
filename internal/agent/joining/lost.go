package joining

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Remake brings a job back that the store has lost, while the workers of this node go on. It continues
// with the job if another agent has made it again, and makes it again if it is the turn of this node.
func (j *Joiner) Remake(ctx context.Context, a message.Remake) message.Event {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	s, err := rendezvous.Read(ctx, j.Store, j.Job.Name)
	if err != nil {
		return message.Remade{Err: err}
	}
	was := &a.Lost.Job
	a.Lost.Own = plan.MergeKnowledge(a.Lost.Own, j.Saves.Knows(a.Lost.Own.Generation))
	known := rendezvous.Memory{Job: *was, Generation: a.Lost.Own.Fence, Known: a.Lost.Own.Head}
	switch {
	case s.Job != nil && s.Job.Same(was) && s.Job.Remade > was.Remade:
		return j.continueWith(&s)
	case s.Job != nil && s.Job.Same(was):
		same, back := a.Lost.World.SameAs(s.World), a.Cluster != s.Cluster || s.Rev < a.Rev
		if !known.Ahead(&s) && (same && !back || !same && s.World != nil) {
			return message.Remade{Job: s.Job} // it was not lost, or others have gone on with it
		}
	default:
		if removed, err := j.requests.Removed(ctx, was); err != nil {
			return message.Remade{Err: err}
		} else if removed {
			return message.Remade{Err: fmt.Errorf("the job was removed: %w", store.ErrMoved)}
		}
		if s.Yields(known.Known) {
			break
		}
		if known.Known.Number == 0 { // nothing of this job is lost
			return message.Remade{Err: fmt.Errorf("another job has its name: %w", store.ErrMoved)}
		}
		return message.Remade{Text: fmt.Sprintf(
			"the server holds another job %s now; workers of this one go on, and nothing is saved. To "+
				"keep this job, end the nodes of the other one, and: elastic rm %[1]s", was.Name)}
	}
	if !a.Try {
		return message.Remade{}
	}
	err = Remake(ctx, j.Peers, j.requests, RemakeRequest{Me: a.Me, Lost: a.Lost,
		Secret: j.state.secret, Seen: &s})
	return message.Remade{Err: err, Again: err == nil || store.Moved(err)}
}

// continueWith continues with the job as living nodes made it again.
func (j *Joiner) continueWith(s *rendezvous.Snapshot) message.Event {
	if err := j.adopt(s); err != nil {
		return message.Remade{Err: err}
	}
	return message.Remade{Job: s.Job}
}

// adopt makes the data of this node that of the job in s.
func (j *Joiner) adopt(s *rendezvous.Snapshot) error {
	if err := j.Workers.AdoptJob(*s.Job); err != nil {
		return err
	}
	if was := &j.state.job; s.Job.Same(was) && j.state.peersOf == was.UID {
		j.state.peersOf = s.Job.UID // a job that is made again keeps its secret
	}
	j.state.job = *s.Job
	return j.remember(s)
}

// lostPatience is how long an agent that is not registered waits until living members of its job have
// made it again. Without any, it ends.
const lostPatience = 10 * time.Second

// checkDisk compares the server with what this node has of a job of that name. If the node has more, it
// joins only if the user said what is to become of that.
func (j *Joiner) checkDisk(ctx context.Context, s *rendezvous.Snapshot) (*message.Entered, error) {
	if j.state.job.UID != "" {
		return j.checkOpened(ctx, s)
	}
	if j.state.movedAside {
		return nil, nil
	}
	name, unlock, err := j.name(ctx)
	if err != nil {
		return nil, nil // lockName reports the error
	}
	defer unlock()
	of := j.Job
	if s.Job != nil {
		of = *s.Job
	}
	known, err := j.Disk.Recall(name, of.Identity())
	if err != nil {
		return j.onDisk(err)
	}
	more, err := j.moreThan(ctx, known, s)
	if err != nil {
		return nil, err
	}
	stays, err := j.stays(ctx, s, more)
	if err != nil || stays == nil && more == nil {
		return nil, err
	}
	if stays == nil {
		return refused(more), nil
	}
	if cleared, err := j.clearName(ctx, s, more); err != nil {
		return nil, err
	} else if !cleared {
		return nil, store.ErrMoved // look at the server again
	}
	if j.state.brought, err = j.Disk.MoveAside(ctx, name, *stays); err != nil {
		return j.onDisk(err)
	}
	j.state.movedAside = true
	return nil, nil
}

// stays returns what stays of the data of earlier jobs when they are moved aside; nil: they must not be,
// or need not. The user of this node said so, or the operator, until the job has its first World.
func (j *Joiner) stays(
	ctx context.Context, s *rendezvous.Snapshot, more *problem.Error,
) (*rendezvous.Aside, error) {
	switch {
	case more == nil && s.Fence > 0:
		return nil, nil
	case more != nil && j.Again:
		return &rendezvous.Aside{}, nil
	case more != nil && j.Resume:
		return &rendezvous.Aside{Newest: true}, nil
	case problem.Is(more, problem.StoreBehind):
		return nil, nil // what an operator allowed before this job was made says nothing of it
	}
	allowed, _, err := j.requests.MayResume(ctx)
	if err != nil || more == nil && (allowed == nil || allowed.Run == "") {
		return nil, err
	}
	return allowed, nil
}

// onDisk is the answer to an error of this node's disk.
func (j *Joiner) onDisk(err error) (*message.Entered, error) {
	if err == nil {
		return nil, nil
	}
	e := over(125, err)
	return &e, nil
}

// moreThan returns the reason for which this node must not join: m, what its disk knows, has a commit of a job
// of that name that the server does not have, or more of the job than the server. nil: there is none.
func (j *Joiner) moreThan(
	ctx context.Context, m *rendezvous.Memory, s *rendezvous.Snapshot,
) (reason *problem.Error, err error) {
	if m == nil || m.Known.Number == 0 {
		return nil, nil
	}
	if s.Job == nil || !s.Job.Same(&m.Job) {
		if m.Done && j.Borrowed {
			return nil, nil // the launcher whose id this is begins anew
		}
		removed, err := j.requests.Removed(ctx, &m.Job)
		if removed || err != nil {
			return nil, err
		}
		return otherServer(j.Job.Name, m.Has()), nil
	}
	if s.Job.Remade > m.Job.Remade || !m.Ahead(s) {
		return nil, nil
	}
	return storeBehind(j.Job.Name, s.Fence, m), nil
}

// otherServer is the error of a node whose machine has a checkpoint of a job of that name that the server
// never had, or no longer has.
func otherServer(job schema.Job, has string) *problem.Error {
	return problem.New(problem.OtherServer, "this machine has %s of a job %s from another server", has, job).
		Because("this server does not have that job").
		Cure("--again begins anew and keeps it aside; --resume goes on from the newest checkpoint "+
			"that the nodes bring").Detail("job", string(job)).Detail("has", has)
}

// storeBehind is the error of a node that knows more of the job than the server, whose newest generation
// is shown.
func storeBehind(job schema.Job, shown schema.Generation, m *rendezvous.Memory) *problem.Error {
	return problem.New(problem.StoreBehind, "the server shows generation %d of job %s, this node remembers %d",
		shown, job, m.Generation).Because("the server was set back: this machine has %s", m.Has()).
		Cure("elastic recover %s goes on from the newest checkpoint of the nodes that are here", job).
		Detail("job", string(job)).Detail("has", m.Has())
}

// clearName removes the older state of a job from the server, if no node of it is registered, and allows
// nodes to bring checkpoints if the user asked for that. It reports whether nothing is left to do
// before what this node has is moved aside.
func (j *Joiner) clearName(ctx context.Context, s *rendezvous.Snapshot, more *problem.Error) (bool, error) {
	older := problem.Is(more, problem.StoreBehind)
	if !older && (s.Job != nil || !j.Resume) {
		return true, nil
	}
	whole, err := rendezvous.Read(ctx, j.Store, j.Job.Name)
	if err != nil {
		return false, err
	}
	if len(whole.Nodes) > 0 {
		return true, nil // the job goes on from its older state, and this node joins it
	}
	if j.Resume {
		err = j.requests.AllowResume(ctx, &whole, "")
		return err == nil && !older, err
	}
	if whole.Job == nil {
		return false, nil
	}
	return false, j.requests.Remove(ctx, &whole)
}

// checkOpened is checkDisk for an agent that was in the job, and whose data is open.
func (j *Joiner) checkOpened(ctx context.Context, s *rendezvous.Snapshot) (*message.Entered, error) {
	was := &j.state.job
	m, err := j.Disk.Recall(j.state.node, was.Identity())
	if err != nil {
		return j.onDisk(err)
	}
	known := checkpoint.Head{}
	if m != nil {
		known = m.Known
	}
	switch {
	case s.Job != nil && s.Job.UID == was.UID && (m == nil || known.Number == 0 || !m.Ahead(s)):
		j.state.lostSince = time.Time{}
		return nil, nil
	case s.Job != nil && (known.Number == 0 ||
		s.Job.Same(was) && s.Job.Remade > was.Remade && known.Number <= s.Head.Number):
		j.state.joined = j.state.joined && s.Job.Same(was)
		if err := j.adopt(s); err != nil {
			return j.cannotWrite(ctx, err)
		}
		return nil, store.ErrMoved // with the job as it is now
	}
	if removed, err := j.requests.Removed(ctx, was); err != nil {
		return nil, err
	} else if removed {
		return refused(problem.New(problem.JobNone, "the job of this node was removed").
			Because("elastic rm removed the job while this node was not in it")), nil
	}
	if j.state.lostSince.IsZero() {
		j.state.lostSince = time.Now()
	}
	if time.Since(j.state.lostSince) < lostPatience {
		return nil, hindrance{errors.New("the server does not have the job as this node knows it")}
	}
	if known.Number == 0 {
		return nil, j.create(ctx)
	}
	if s.Job != nil && s.Job.Same(was) {
		return refused(storeBehind(was.Name, s.Fence, m)), nil
	}
	return refused(otherServer(was.Name, m.Has())), nil
}

// openPeers lets this node talk to the other nodes of the job.
func (j *Joiner) openPeers(ctx context.Context, s *rendezvous.Snapshot) error {
	secret, err := rendezvous.ReadSecret(ctx, j.Store, j.Job.Name, s.Job.UID)
	if err == nil {
		j.Peers.Open(secret, j.Job.Name, s.Job.Identity())
		j.state.peersOf, j.state.secret = s.Job.UID, secret
	}
	return err
}

// cannotWrite handles an error of writing to disk what this node must know of the job. If the disk is full
// or fails, a node that was in the job tries again, and says so once. Any other error ends the agent.
func (j *Joiner) cannotWrite(ctx context.Context, err error) (*message.Entered, error) {
	passes := slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO},
		func(e error) bool { return errors.Is(err, e) })
	if !passes || j.state.job.UID == "" {
		return j.onDisk(err)
	}
	text := fmt.Sprintf("this node cannot write to its disk what it must know of job %s: %v; trying again",
		j.Job.Name, err)
	if text != j.state.waitingFor {
		j.state.waitingFor = text
		j.Send(ctx, message.Waiting{Text: text})
	}
	return nil, hindrance{err}
}

// remember writes down what this node knows of the job.
func (j *Joiner) remember(s *rendezvous.Snapshot) error {
	m := rendezvous.Memory{Job: *s.Job, Generation: s.Fence, Known: s.Head}
	if s.World == nil || s.World.Generation == 0 {
		m.Generation = 0
	}
	return j.Memory.Keep(j.state.node, m, j.Disk.Remember)
}

// bringText says what this node brings.
func (j *Joiner) bringText() []string {
	b := j.state.brought
	if b == nil {
		return nil
	}
	return []string{fmt.Sprintf("this node brings checkpoint %d%s of run %s; the job begins from the newest "+
		"that its nodes bring", b.Head.Number, checkpoint.AtStep(b.Head.Step), b.From)}
}

// committed returns the checkpoints of a job that was made again: a node that was in it before may have
// copies of them. Of another job it returns none.
func (j *Joiner) committed(ctx context.Context, s *rendezvous.Snapshot) ([]checkpoint.Head, error) {
	if s.Job.Remade == 0 {
		return nil, nil
	}
	whole, err := rendezvous.Read(ctx, j.Store, j.Job.Name)
	if err == nil && (whole.Job == nil || whole.Job.UID != s.Job.UID) {
		err = store.ErrMoved
	}
	return whole.History, err
}
