package target

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// JobServer finds the server of a command about one job. It first checks the job name, if there is
// one.
func JobServer(ctx context.Context, c *command.Call) (*Server, schema.Job, error) {
	name, err := JobName(c)
	if err != nil {
		return nil, "", err
	}
	s, err := Open(ctx, c, Ask, 0)
	return s, name, err
}

// OpenJob finds the server of a command about one job, and reads the job like JobOrNewest.
func OpenJob(ctx context.Context, c *command.Call) (*Server, rendezvous.Snapshot, error) {
	return openJob(ctx, c, JobOrNewest)
}

// OpenLivingJob finds the server of a command about one job, and reads the job like LivingJob.
func OpenLivingJob(ctx context.Context, c *command.Call) (*Server, rendezvous.Snapshot, error) {
	return openJob(ctx, c, LivingJob)
}

// reader reads the job of a command.
type reader func(context.Context, *command.Call, *Server, schema.Job) (rendezvous.Snapshot, error)

func openJob(ctx context.Context, c *command.Call, read reader) (*Server, rendezvous.Snapshot, error) {
	s, name, err := JobServer(ctx, c)
	if err != nil {
		return nil, rendezvous.Snapshot{}, err
	}
	snap, err := read(ctx, c, s, name)
	if err != nil {
		s.Close()
		return nil, rendezvous.Snapshot{}, err
	}
	return s, snap, nil
}

// naming is how a command is typed with the name of a job.
func naming(c *command.Call, job string) string {
	before, _, takes := strings.Cut(c.Command.Args, "[JOB]")
	if !takes {
		return "--job-id=" + job
	}
	return "elastic " + c.Command.Name + " " + before + job
}

// LivingJob reads the named job. Without a name it reads the only job that lives. An abandoned job
// must be named.
func LivingJob(
	ctx context.Context, c *command.Call, s *Server, name schema.Job,
) (rendezvous.Snapshot, error) {
	if name != "" {
		return ReadJob(ctx, s, name)
	}
	m, err := candidateJobs(ctx, c, s)
	switch {
	case err != nil:
		return rendezvous.Snapshot{}, err
	case m.living != nil:
		return *m.living, nil
	case len(m.abandoned) > 0:
		names := namesOf(m.abandoned)
		return rendezvous.Snapshot{}, problem.New(problem.JobNone, "no job on this server is active").
			Because("no node of %s is registered", phrase.List(names)).
			Cure("name the job: %s", naming(c, names[0]))
	}
	return rendezvous.Snapshot{}, problem.New(problem.JobNone, "no job on this server is active").
		Because("the newest, %s, is %s", m.newest.Job.Name, m.newest.World.Phase).
		Cure("elastic run begins a job; elastic jobs lists those that ended")
}

// JobOrNewest reads the named job. Without a name it reads the only job that lives, or the newest
// job if none lives.
func JobOrNewest(
	ctx context.Context, c *command.Call, s *Server, name schema.Job,
) (rendezvous.Snapshot, error) {
	if name != "" {
		return ReadJob(ctx, s, name)
	}
	m, err := candidateJobs(ctx, c, s)
	switch {
	case err != nil:
		return rendezvous.Snapshot{}, err
	case m.living != nil:
		return *m.living, nil
	}
	return m.newest, nil
}

// candidates has the jobs that a command without a job name can be about.
type candidates struct {
	living    *rendezvous.Snapshot // the only job that lives; nil: none
	abandoned []rendezvous.Snapshot
	newest    rendezvous.Snapshot
}

// candidateJobs reads the jobs of the server. It fails if there is no job, or if several live.
func candidateJobs(ctx context.Context, c *command.Call, s *Server) (candidates, error) {
	all, broken, err := ReadJobs(ctx, s)
	if err != nil {
		return candidates{}, err
	}
	Skipped(c, broken)
	if len(all) == 0 {
		return candidates{}, problem.New(problem.JobNone, "no job on this server")
	}
	live, abandoned := living(c, all)
	if len(live) > 1 {
		names := namesOf(live)
		return candidates{}, problem.New(problem.JobAmbiguous, "%d jobs on this server are active: %s", len(live),
			phrase.List(names)).
			Cure("%s", naming(c, names[0])).Detail("jobs", names)
	}
	m := candidates{abandoned: abandoned,
		newest: slices.MaxFunc(all,
			func(a, b rendezvous.Snapshot) int { return a.Job.Time.Compare(b.Job.Time) })}
	if len(live) == 1 {
		m.living = &live[0]
	}
	return m, nil
}

// living returns the jobs that have not ended. An abandoned job has no node and no sign of one.
func living(c *command.Call, all []rendezvous.Snapshot) (live, abandoned []rendezvous.Snapshot) {
	for _, j := range all {
		switch {
		case Ended(&j):
		case status.Explain(&j, c.Out.Now()).Abandoned:
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

// JobName returns the job name of a command: the positional, a flag or a variable, else "".
func JobName(c *command.Call) (schema.Job, error) {
	name := c.Setting("job-id").Text
	given := c.Setting("job-id").Given
	if len(c.Args) > 0 {
		name, given = c.Args[0], true
	}
	if !given {
		return "", nil
	}
	return schema.Job(name), command.ValidName("job", name)
}

func Ended(s *rendezvous.Snapshot) bool {
	return s.World != nil && s.World.Attempt == s.Job.Attempt && s.World.Phase.Ended()
}

// ReadJob reads one job. If there is none of that name, the error E-JOB-NONE suggests the nearest.
func ReadJob(ctx context.Context, s *Server, name schema.Job) (rendezvous.Snapshot, error) {
	snap, err := rendezvous.Read(ctx, s, name)
	if err != nil || snap.Job != nil {
		return snap, err
	}
	e := problem.New(problem.JobNone, "no job %s on this server", name)
	all, _, err := ReadJobs(ctx, s)
	if store.Refused(err) {
		return snap, e // a user with rights on this job only cannot list the others
	}
	if err != nil {
		return snap, err
	}
	var names []string
	for _, j := range all {
		names = append(names, string(j.Job.Name))
	}
	if near := phrase.Nearest(string(name), names); near != "" {
		e.Cure("did you mean %s?", near)
	} else if len(names) > 0 {
		e.Because("there are %s", phrase.List(names))
	}
	return snap, e.Detail("jobs", append([]string{}, names...))
}

// ReadJobs reads all jobs of the server at one revision, sorted by name. Jobs with a record that
// cannot be read are in broken.
func ReadJobs(ctx context.Context, s *Server) (all []rendezvous.Snapshot, broken []unreadable, err error) {
	r, err := s.Get(ctx, schema.Root, store.End(schema.Root))
	if err != nil {
		return nil, nil, fmt.Errorf("read jobs: %w", err)
	}
	of := map[schema.Job][]store.Entry{}
	for _, e := range r.Entries {
		if name, _, ok := strings.Cut(strings.TrimPrefix(e.Key, schema.Root), "/"); ok &&
			schema.ValidName(name) {
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

// unreadable is a job with a record that cannot be read.
type unreadable struct {
	name schema.Job
	err  error
}

// Skipped tells the user which jobs a command leaves out.
func Skipped(c *command.Call, jobs []unreadable) {
	for _, j := range jobs {
		c.Out.Say("job %s cannot be read and is left out: %v", j.name, j.err)
	}
}
