package joining

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// noteEnded records, at the first read, a World of an attempt that has ended. If an attempt ends
// later, this node ends too.
func (j *Joiner) noteEnded(s *rendezvous.Snapshot) {
	if j.state.hasRead {
		return
	}
	j.state.hasRead = true
	if s.Job != nil && s.World != nil && s.World.Phase.Ended() && s.World.Attempt == s.Job.Attempt {
		j.state.endedWorld = s.World.Rev
	}
}

// enterEnded handles a job whose attempt has ended. If that was before this node started, a new
// attempt begins, unless the job is done and was not asked for again. Otherwise this node ends as
// well.
func (j *Joiner) enterEnded(ctx context.Context, s *rendezvous.Snapshot) (*message.Entered, error) {
	w := s.World
	was := w.Rev == j.state.endedWorld // it had ended before this node started
	switch {
	case was && w.Phase == rendezvous.Done && j.Resume && s.Head.Number > 0:
		return nil, j.requests.AllowResume(ctx, s, "") // the next attempt to join brings what this node has
	case was && (w.Phase == rendezvous.Done && (j.Again || j.Resume || j.Borrowed) || j.another(s)):
		return nil, j.beginAnew(ctx, s)
	case w.Phase == rendezvous.Done && !j.state.joined:
		return refused(problem.New(problem.JobDone, "job %s is done already: nothing was started", s.Job.Name).
			Because("it ran: %s", strings.Join(s.Job.Origin.Command, " ")).
			Cure("--again begins a new job %s and keeps what is there aside; --resume goes on from its newest "+
				"checkpoint; another --job-id is another job; --done-ok takes this for success", s.Job.Name).
			Detail("job", string(s.Job.Name))), nil
	case w.Phase == rendezvous.Done:
		e := over(0, nil)
		return &e, nil
	case was:
		return nil, j.reopen(ctx, s)
	}
	e := over(w.Outcome.Code, nil)
	return &e, nil
}

// reopen begins a new attempt, with the settings of this node.
func (j *Joiner) reopen(ctx context.Context, s *rendezvous.Snapshot) error {
	job := j.Job
	job.Time = time.Now()
	if err := j.requests.Reopen(ctx, s, job); err != nil {
		return err
	}
	if !s.Job.Origin.SameCommand(job.Origin) {
		j.Say(message.Line{Text: fmt.Sprintf("job %s ran `%s` before, and goes on with `%s`; for a job of its "+
			"own: another --job-id", s.Job.Name, strings.Join(s.Job.Origin.Command, " "),
			strings.Join(job.Origin.Command, " "))})
	}
	return nil
}

// atRest reports whether no worker of the job runs, and none is to run: it has no world yet, or waits.
func atRest(s *rendezvous.Snapshot) bool {
	return s.World == nil || s.World.Phase == rendezvous.Waiting
}

// resettle gives a job at rest the settings of this node, if no node is in it. differs is the answer
// otherwise.
func (j *Joiner) resettle(
	ctx context.Context, s *rendezvous.Snapshot, differs error,
) (*message.Entered, error) {
	here, err := j.readNodes(ctx, store.Below(j.Job.Name.Nodes()))
	if err != nil {
		return nil, err
	}
	if len(here) > 0 {
		e := over(2, differs)
		return &e, nil
	}
	return nil, j.reopen(ctx, s)
}

// another reports whether the job was another program's: two runs under one id of another launcher
// have nothing to do with each other, so this one must not go on from what the other saved.
func (j *Joiner) another(s *rendezvous.Snapshot) bool {
	return j.Borrowed && !j.state.joined && s.Job.Origin.Differs(j.Job.Origin.Digest())
}

// beginAnew removes a job that has ended, or that no node is in. The next attempt to join makes it
// again, and moves what this node has of it aside.
func (j *Joiner) beginAnew(ctx context.Context, s *rendezvous.Snapshot) error {
	if err := j.requests.Remove(ctx, s); err != nil {
		return err
	}
	j.Say(message.Line{Text: fmt.Sprintf("job %s %s and ran `%s`; it begins anew, and what it left here "+
		"is kept aside: elastic ckpt ls %[1]s", s.Job.Name, endedAs(s),
		strings.Join(s.Job.Origin.Command, " "))})
	return nil
}

// endedAs says how a job ended.
func endedAs(s *rendezvous.Snapshot) string {
	if w := s.World; w != nil && w.Phase.Ended() && w.Attempt == s.Job.Attempt {
		return "is " + string(w.Phase)
	}
	return "has no node"
}
