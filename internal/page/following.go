package page

import (
	"context"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// following gathers changes, so that many of them make one derivation.
type following struct {
	*hub
	due   map[schema.Job]bool // changed: derived soon
	calm  map[schema.Job]bool // only its progress changed: derived within a second
	soon  time.Time           // when those that are due are derived; zero: none is
	later time.Time           // the same of calm ones
	empty time.Time           // since when nobody looks; zero: somebody does
	shown map[schema.Job]bool // derived at length

	answers chan error // of the reads of ask; nil: it was answered
	silent  string     // silence, if the last one was not
}

const (
	askTime  = time.Second
	askLimit = 2 * time.Second
)

// silence is what viewers read meanwhile.
const silence = "it does not answer"

// ask reads a key again and again, because a watch is silent both when nothing happens and when the
// members have no majority. A server that refuses the read answers.
func (f *following) ask(ctx context.Context) {
	tick := time.NewTicker(askTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, anybody := f.watched(); !anybody {
			continue
		}
		limit, cancel := context.WithTimeout(ctx, askLimit)
		_, err := f.source.Get(limit, schema.Elasticd, "")
		cancel()
		if store.Refused(err) {
			err = nil
		}
		select {
		case <-ctx.Done():
		case f.answers <- err:
		}
	}
}

// answered takes the result of a read of ask.
func (f *following) answered(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = silence
	}
	if text != f.silent {
		f.silent = text
		f.lookAgain(ctx)
	}
}

// run applies changes until the watch ends.
func (f *following) run(ctx context.Context, changes <-chan store.Change) error {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c, ok := <-changes:
			if !ok || c.Err != nil {
				return nil
			}
			f.apply(c)
		case err := <-f.answers:
			f.answered(ctx, err)
		case <-f.timer():
			f.flush()
		case <-look.C:
			if f.deserted() {
				return nil
			}
			f.lookAgain(ctx)
		case <-f.asked:
			f.showAsked(ctx)
		}
	}
}

// first takes the records of all jobs, and derives each as soon as it is read: first those that are
// shown at length, so that their viewers do not wait for the others.
func (f *following) first(ctx context.Context, entries []store.Entry) {
	shown, _ := f.watched()
	records, jobs := map[schema.Job][]store.Entry{}, []schema.Job{}
	for _, e := range entries {
		job := jobOf(e.Key)
		if records[job] = append(records[job], e); len(records[job]) == 1 && job != "" {
			jobs = append(jobs, job)
		}
	}
	slices.SortStableFunc(jobs, func(a, b schema.Job) int {
		switch {
		case shown[a] == shown[b]:
			return 0
		case shown[a]:
			return -1
		}
		return 1
	})
	before := f.cells
	f.cells = map[schema.Job]*cell{}
	for told, i := time.Now(), 0; i < len(jobs) && ctx.Err() == nil; i++ {
		for _, e := range records[jobs[i]] {
			f.cell(jobs[i]).put(e)
		}
		f.derive(map[schema.Job]bool{jobs[i]: true})
		if shown[jobs[i]] || time.Since(told) > soon {
			f.tell(f.silent)
			told = time.Now()
		}
	}
	for job := range before {
		if f.cells[job] == nil {
			f.remove(job)
		}
	}
	f.shown = shown
	if f.health != nil {
		f.set("health", f.health(ctx))
	}
	f.tell(f.silent)
}

// timer fires when the next derivation is due; nil: none is.
func (f *following) timer() <-chan time.Time {
	at := f.soon
	if at.IsZero() || !f.later.IsZero() && f.later.Before(at) {
		at = f.later
	}
	if at.IsZero() {
		return nil
	}
	return time.After(time.Until(at))
}

// apply takes one change into the cells.
func (f *following) apply(c store.Change) {
	now := time.Now()
	for _, e := range c.Events {
		job := jobOf(e.Key)
		if job == "" {
			continue
		}
		calm := false
		if e.Deleted {
			f.cell(job).drop(e.Key)
		} else {
			calm = f.cell(job).put(e.Entry)
		}
		if calm {
			f.calm[job] = true
			if f.later.IsZero() {
				f.later = now.Add(calmly)
			}
			continue
		}
		f.due[job] = true
		if f.soon.IsZero() {
			f.soon = now.Add(soon)
		}
	}
}

// flush derives the jobs that are due.
func (f *following) flush() {
	now := time.Now()
	if !f.soon.IsZero() && !now.Before(f.soon) {
		f.derive(f.due)
		f.due, f.soon = map[schema.Job]bool{}, time.Time{}
	}
	if !f.later.IsZero() && !now.Before(f.later) {
		f.derive(f.calm)
		f.calm, f.later = map[schema.Job]bool{}, time.Time{}
	}
	f.tell(f.silent)
}

// derive publishes jobs anew, those that are shown at length in full. Nothing is derived while nobody
// looks.
func (f *following) derive(which map[schema.Job]bool) {
	shown, anybody := f.watched()
	for job := range which {
		switch {
		case !anybody:
		case shown[job]:
			f.describe(job)
		default:
			f.summarise(job)
		}
	}
}

// lookAgain derives everything: some of it depends on the time.
func (f *following) lookAgain(ctx context.Context) {
	jobs, anybody := f.watched()
	if !anybody {
		return
	}
	all := map[schema.Job]bool{}
	for job := range f.cells {
		all[job] = true
	}
	f.derive(all)
	f.shown = jobs
	if f.health != nil {
		f.set("health", f.health(ctx))
	}
	f.tell(f.silent)
}

// showAsked derives what new viewers asked for.
func (f *following) showAsked(ctx context.Context) {
	jobs, _ := f.watched()
	if !f.empty.IsZero() { // nothing was derived while nobody looked
		f.empty = time.Time{}
		f.lookAgain(ctx)
		return
	}
	for job := range jobs {
		if job != "" && !f.shown[job] {
			f.describe(job)
		}
	}
	f.shown = jobs
	f.tell(f.silent)
}

// deserted reports whether nobody has looked for a while.
func (f *following) deserted() bool {
	_, anybody := f.watched()
	switch {
	case anybody:
		f.empty = time.Time{}
	case f.empty.IsZero():
		f.empty = time.Now()
	}
	return !anybody && time.Since(f.empty) > linger
}
