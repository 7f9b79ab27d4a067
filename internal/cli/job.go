package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// jobServer finds the server of a command about one job, once the name of the job, if it has one, can be one.
func (c *call) jobServer(ctx context.Context) (*server, schema.Job, error) {
	name, err := c.jobName()
	if err != nil {
		return nil, "", err
	}
	s, err := c.server(ctx, ask, 0)
	return s, name, err
}

// job reads the job that is meant: the one that is named, else the only one that lives. An
// abandoned job is never meant without its name. With orNewest the newest, if none lives.
func (c *call) job(ctx context.Context, s *server, name schema.Job, orNewest bool) (rendezvous.Snapshot, error) {
	if name != "" {
		return readJob(ctx, s, name)
	}
	all, broken, err := readJobs(ctx, s)
	if err != nil {
		return rendezvous.Snapshot{}, err
	}
	c.skipped(broken)
	if len(all) == 0 {
		if e, err := lostJob(ctx, s); err != nil {
			return rendezvous.Snapshot{}, err
		} else if e != nil {
			return rendezvous.Snapshot{}, e
		}
		return rendezvous.Snapshot{}, fail(JobNone, "no job on this server")
	}
	live, abandoned := c.living(all)
	switch {
	case len(live) == 1:
		return live[0], nil
	case len(live) > 1:
		names := namesOf(live)
		return rendezvous.Snapshot{}, fail(JobAmbiguous, "%d jobs live on this server: %s", len(live), phrase.List(names)).
			cure("elastic %s %s", c.command.name, names[0]).detail("jobs", names)
	}
	newest := slices.MaxFunc(all, func(a, b rendezvous.Snapshot) int { return a.Job.Time.Compare(b.Job.Time) })
	switch {
	case orNewest:
		return newest, nil
	case len(abandoned) > 0:
		names := namesOf(abandoned)
		return rendezvous.Snapshot{}, fail(JobNone, "no job lives on this server").
			because("no node is left of %s", phrase.List(names)).cure("name the job: elastic %s %s", c.command.name, names[0])
	}
	return rendezvous.Snapshot{}, fail(JobNone, "no job lives on this server").
		because("the newest, %s, is %s", newest.Job.Name, newest.World.Phase).cure("name the job")
}

// living are the jobs that have not ended: those with a sign of a node, and those without.
func (c *call) living(all []rendezvous.Snapshot) (live, abandoned []rendezvous.Snapshot) {
	for _, j := range all {
		switch {
		case ended(&j):
		case status.Explain(&j, c.out.now()).Abandoned:
			abandoned = append(abandoned, j)
		default:
			live = append(live, j)
		}
	}
	return live, abandoned
}

func namesOf(jobs []rendezvous.Snapshot) (names []string) {
	for _, j := range jobs {
		names = append(names, string(j.Job.Name))
	}
	return names
}

// jobName is what names the job: the positional, else a flag, else the environment, else "".
func (c *call) jobName() (schema.Job, error) {
	name := c.setting("job-id").text
	given := c.setting("job-id").given
	if len(c.args) > 0 {
		name, given = c.args[0], true
	}
	if !given {
		return "", nil
	}
	return schema.Job(name), validName("job", name)
}

func ended(s *rendezvous.Snapshot) bool {
	return s.World != nil && s.World.Attempt == s.Job.Attempt && s.World.Phase.Ended()
}

// readJob reads one job; E-JOB-NONE names the nearest.
func readJob(ctx context.Context, s *server, name schema.Job) (rendezvous.Snapshot, error) {
	snap, err := rendezvous.Read(ctx, s, name)
	if err != nil || snap.Job != nil && !snap.Claimed(snap.Job) {
		return snap, err
	}
	if len(snap.Claims) > 0 {
		return snap, lost(name, snap.Claims)
	}
	e := fail(JobNone, "no job %s on this server", name)
	all, _, err := readJobs(ctx, s)
	if store.Refused(err) {
		return snap, e // a user of this job alone may not look at others
	}
	if err != nil {
		return snap, err
	}
	var names []string
	for _, j := range all {
		names = append(names, string(j.Job.Name))
	}
	if near := phrase.Nearest(string(name), names); near != "" {
		e.cure("did you mean %s?", near)
	} else if len(names) > 0 {
		e.because("there are %s", phrase.List(names))
	}
	return snap, e.detail("jobs", append([]string{}, names...))
}

// readJobs reads every job of the server at one revision, by name. One that cannot be read keeps nobody
// from the others.
func readJobs(ctx context.Context, s *server) (all []rendezvous.Snapshot, broken []unreadable, err error) {
	r, err := s.Get(ctx, schema.Root, store.End(schema.Root))
	if err != nil {
		return nil, nil, fmt.Errorf("read jobs: %w", err)
	}
	of := map[schema.Job][]store.Entry{}
	for _, e := range r.Entries {
		if name, _, ok := strings.Cut(strings.TrimPrefix(e.Key, schema.Root), "/"); ok && schema.ValidName(name) {
			of[schema.Job(name)] = append(of[schema.Job(name)], e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		entries := of[name]
		snap, err := rendezvous.Decode(name, store.Read{Entries: entries, Rev: r.Rev, Cluster: r.Cluster})
		if err != nil {
			broken = append(broken, unreadable{name, err})
			continue
		}
		if snap.Job != nil {
			snap.Events = history.Of(name, entries)
			all = append(all, snap)
		}
	}
	return all, broken, nil
}
