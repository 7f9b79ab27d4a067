package cli

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
)

// unreadable is a job of which some record cannot be read.
type unreadable struct {
	name schema.Job
	err  error
}

// skipped names the jobs that a command leaves out.
func (c *call) skipped(jobs []unreadable) {
	for _, j := range jobs {
		c.out.say("job %s cannot be read and is left out: %v", j.name, j.err)
	}
}

// removeUnreadable removes a job that cannot be read, unless nodes of it live.
func (c *call) removeUnreadable(ctx context.Context, s *server, name schema.Job, cause error) error {
	requests := txn.Requests{Store: s, Job: name}
	u, err := requests.LookUnreadable(ctx)
	if err != nil {
		return err
	}
	if len(u.Nodes) > 0 {
		return fail(JobLive, "job %s has %s: %s", name, phrase.Count(len(u.Nodes), "node"), phrase.List(u.Nodes)).
			because("it cannot be read: %v", cause).
			cure("end their agents (Ctrl-C where they run), then elastic rm %s", name).detail("nodes", u.Nodes)
	}
	c.out.say("job %s cannot be read: %v", name, cause)
	c.out.say("deletes on the server: everything of job %s (%s)", name, phrase.Count(u.Size(), "key"))
	if err := c.confirm(fmt.Sprintf("remove job %s?", name)); err != nil {
		return err
	}
	if err := requests.RemoveUnreadable(ctx, u); err != nil {
		return err
	}
	if u.UID == "" {
		if c.out.json {
			return c.out.object(map[string]any{"job": name, "removed": true, "nodes": []string{}, "bytes": 0})
		}
		return c.out.line("job %s removed", name)
	}
	return c.removed(name, u.UID)
}
