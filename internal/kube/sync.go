package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Sync keeps the StatefulSets of one namespace and their jobs equal.
type Sync struct {
	API   *Client
	Store store.Store  // has the jobs
	Say   func(string) // shows a text to the user once
	Every time.Duration

	seen map[string]*written // by StatefulSet
}

// written is the last state written for a StatefulSet, so that nothing is written twice.
type written struct {
	uid    string
	rev    int64
	status string
	note   string
}

// Run compares all StatefulSets and jobs each s.Every, until ctx ends. It reports an error once,
// until it changes, and tries again.
func (s *Sync) Run(ctx context.Context) {
	s.seen = map[string]*written{}
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
	owner := map[schema.Job]string{}
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
	snap, err := rendezvous.Read(ctx, s.Store, set.Job())
	if err != nil {
		return err
	}
	if snap.Job == nil {
		return nil // the first pod will create the job
	}
	st := status.Explain(&snap, time.Now())
	if err := s.publish(ctx, set, st); err != nil {
		return err
	}
	if err := s.tellEvents(ctx, set, snap.Events); err != nil {
		return err
	}
	if st.Ended() {
		return nil
	}
	agreed, _ := strconv.Atoi(set.Metadata.Annotations[synced]) // 0: no agreed size
	step := Decide(&snap, set.Spec.Replicas, agreed)
	if step.Note != "" {
		if err := s.warn(ctx, set, step.Note); err != nil {
			return err
		}
	}
	switch step.Action {
	case SetNP:
		if err = s.wish(ctx, &snap, step.N); err == nil {
			err = s.API.Note(ctx, set, step.N)
		}
	case SetReplicas:
		err = s.API.Resize(ctx, set, step.N)
	case Agree:
		err = s.API.Note(ctx, set, step.N)
	}
	if errors.Is(err, errConflict) || store.Moved(err) {
		return nil // one side was edited meanwhile: the next round decides again
	}
	return err
}

// wish asks for np nodes.
func (s *Sync) wish(ctx context.Context, snap *rendezvous.Snapshot, np int) error {
	_, err := scaling.For(snap.Job.Base, snap.Job.Workers(np))
	if err == nil && np > scaling.MaxWorld {
		err = fmt.Errorf("more than %d nodes", scaling.MaxWorld)
	}
	if err == nil {
		wish := snap.Wish
		wish.NP, wish.By = np, "scale"
		_, err = txn.Requests{Store: s.Store, Job: snap.Job.Name}.SetWish(ctx, snap, wish)
	}
	if err != nil {
		return fmt.Errorf("scale job %s to %d: %w", snap.Job.Name, np, err)
	}
	return nil
}

// publish writes the status if it has changed.
func (s *Sync) publish(ctx context.Context, set *StatefulSet, st status.Status) error {
	m := s.writtenOf(set)
	st.Progress, st.Doing = nil, nil // they change all the time
	text, err := json.Marshal(st)
	if err != nil || string(text) == m.status {
		return err
	}
	if err := s.API.Publish(ctx, set.Job(),
		map[string]string{"state": string(st.State), "why": st.Why, "status.json": string(text)}); err != nil {
		return err
	}
	m.status = string(text)
	return nil
}

// tellEvents shows the new events.
func (s *Sync) tellEvents(ctx context.Context, set *StatefulSet, events []history.Event) error {
	m := s.writtenOf(set)
	for _, e := range events {
		shown, warning := mirrored(e.Kind)
		if !shown || e.Rev <= m.rev {
			continue
		}
		err := s.API.Tell(ctx, set,
			Event{Name: fmt.Sprintf("%s-%d", objectName(set.Job()), e.Rev), Reason: string(e.Kind),
				Pod: e.Node, Message: e.Text, Warning: warning, Time: e.Time})
		if err != nil && !errors.Is(err, ErrForbidden) {
			return err
		}
		m.rev = e.Rev // without the right to write events, they are skipped
	}
	return nil
}

// mirrored reports whether Kubernetes shows an event of this kind, and whether as a warning. Events
// of normal training are not shown.
func mirrored(k history.Kind) (shown, warning bool) {
	switch k {
	case history.NodeLost, history.WorkerFailed, history.JobFailed, history.Bad, history.Refused,
		history.Backoff, history.Quarantined, history.Stalled:
		return true, true
	case history.JobCreated, history.NodeLeft, history.WaitEntered, history.WorldRunning, history.WishChanged,
		history.JobDone, history.JobStopped:
		return true, false
	}
	return false, false
}

// warn reports a note about a StatefulSet once, until it changes.
func (s *Sync) warn(ctx context.Context, set *StatefulSet, note string) error {
	m := s.writtenOf(set)
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

// writtenOf returns what was written for set. A StatefulSet that was created again has a new one.
func (s *Sync) writtenOf(set *StatefulSet) *written {
	m := s.seen[set.Metadata.Name]
	if m == nil || m.uid != set.Metadata.UID {
		m = &written{uid: set.Metadata.UID}
		s.seen[set.Metadata.Name] = m
	}
	return m
}
