package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Job is the state of one job on the server.
type Job struct {
	NP       int
	NPAt     time.Time
	Min, Max int
	Ended    bool
	Status   map[string]string // of the ConfigMap: a sentence, and the status as JSON
	Events   []Happened
}

// Happened is one event of a job.
type Happened struct {
	Rev  int64
	Time time.Time
	Kind string
	Node string // "": it is about no node
	Text string
	Bad  bool
}

// Jobs reads and changes jobs.
type Jobs interface {
	// Read returns a job with its events after revision since. ErrNoJob if there is none.
	Read(ctx context.Context, name string, since int64) (Job, error)
	// Wish asks for np nodes.
	Wish(ctx context.Context, name string, np int) error
}

// ErrNoJob means that the server has no such job yet.
var ErrNoJob = errors.New("no such job")

// Sync keeps the StatefulSets of one namespace and their jobs equal.
type Sync struct {
	API   *Client
	Jobs  Jobs
	Say   func(string) // shows a text to the user once
	Every time.Duration

	seen map[string]*memory // by StatefulSet
}

// memory is the last state written for a StatefulSet, so that nothing is written twice.
type memory struct {
	uid    string
	rev    int64
	status string
	note   string
}

// Run compares all StatefulSets and jobs each s.Every, until ctx ends. It reports an error once,
// until it changes, and tries again.
func (s *Sync) Run(ctx context.Context) {
	s.seen = map[string]*memory{}
	last := ""
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		now := ""
		if err := s.syncAll(ctx); err != nil && ctx.Err() == nil {
			now = err.Error()
		}
		if now != "" && now != last {
			s.Say(now)
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// syncAll compares each labelled StatefulSet with its job.
func (s *Sync) syncAll(ctx context.Context) error {
	sets, err := s.API.List(ctx)
	if err != nil {
		return err
	}
	owner := map[string]string{}
	var all []error
	for i := range sets {
		set := &sets[i]
		if name := objectName(set.Job()); !validObject.MatchString(name) {
			all = append(all, s.warn(ctx, set,
				fmt.Sprintf("%s=%s is not kept equal: %q cannot name a ConfigMap; "+
					"name the job in lower-case letters, digits and '-'", Label, set.Job(), name)))
			continue
		}
		if first, taken := owner[set.Job()]; taken {
			all = append(all, s.warn(ctx, set, fmt.Sprintf(
				"%s=%s is on StatefulSet %s too: only that one is kept equal with the job",
				Label, set.Job(), first)))
			continue
		}
		owner[set.Job()] = set.Metadata.Name
		all = append(all, s.syncOne(ctx, set))
	}
	return errors.Join(all...)
}

// syncOne makes the sizes of a StatefulSet and its job equal, and publishes changes.
func (s *Sync) syncOne(ctx context.Context, set *StatefulSet) error {
	m := s.memoryOf(set)
	job, err := s.Jobs.Read(ctx, set.Job(), m.rev)
	if errors.Is(err, ErrNoJob) {
		return nil // the first pod will create the job
	}
	if err != nil {
		return fmt.Errorf("read job %s: %w", set.Job(), err)
	}
	if err := s.publish(ctx, set, job); err != nil {
		return err
	}
	if job.Ended {
		return nil
	}
	agreed, _ := strconv.Atoi(set.Metadata.Annotations[synced]) // 0: no agreed size
	step := Decide(Sizes{Replicas: set.Spec.Replicas, ReplicasAt: set.Edited(), NP: job.NP, NPAt: job.NPAt,
		Synced: agreed, Min: job.Min, Max: job.Max})
	if step.Note != "" {
		if err := s.warn(ctx, set, step.Note); err != nil {
			return err
		}
	}
	switch step.Action {
	case SetNP:
		if err := s.Jobs.Wish(ctx, set.Job(), step.N); err != nil {
			return fmt.Errorf("scale job %s to %d: %w", set.Job(), step.N, err)
		}
		err = s.API.Note(ctx, set, step.N)
	case SetReplicas:
		err = s.API.Resize(ctx, set, step.N)
	case Agree:
		err = s.API.Note(ctx, set, step.N)
	}
	if errors.Is(err, errConflict) {
		return nil // it was edited meanwhile: the next round decides again
	}
	return err
}

// publish writes the status if it has changed, and the new events.
func (s *Sync) publish(ctx context.Context, set *StatefulSet, job Job) error {
	m := s.memoryOf(set)
	if text := job.Status["status.json"]; text != m.status {
		if err := s.API.Publish(ctx, set.Job(), job.Status); err != nil {
			return err
		}
		m.status = text
	}
	for _, e := range job.Events {
		err := s.API.Tell(ctx, set,
			Event{Name: fmt.Sprintf("%s-%d", objectName(set.Job()), e.Rev), Reason: e.Kind,
				Pod: e.Node, Message: e.Text, Warning: e.Bad, Time: e.Time})
		if err != nil && !errors.Is(err, ErrForbidden) {
			return err
		}
		m.rev = e.Rev // without the right to write events, they are skipped
	}
	return nil
}

// warn reports a note about a StatefulSet once, until it changes.
func (s *Sync) warn(ctx context.Context, set *StatefulSet, note string) error {
	m := s.memoryOf(set)
	if m.note == note {
		return nil
	}
	s.Say(set.Metadata.Name + ": " + note)
	now := time.Now()
	err := s.API.Tell(ctx, set,
		Event{Name: fmt.Sprintf("elastic-%s-note-%d", set.Metadata.Name, now.UnixNano()),
			Reason: "ElasticSize", Message: note, Warning: true, Time: now})
	if err == nil || errors.Is(err, ErrForbidden) {
		m.note = note
		return nil
	}
	return err
}

// memoryOf returns the memory of set. A StatefulSet that was created again has a new one.
func (s *Sync) memoryOf(set *StatefulSet) *memory {
	m := s.seen[set.Metadata.Name]
	if m == nil || m.uid != set.Metadata.UID {
		m = &memory{uid: set.Metadata.UID}
		s.seen[set.Metadata.Name] = m
	}
	return m
}
