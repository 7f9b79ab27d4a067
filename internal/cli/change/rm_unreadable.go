package change

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
)

// removeUnreadable removes a job whose records cannot be read. It fails if nodes are registered.
func (r removal) removeUnreadable(ctx context.Context, cause error) error {
	c, s, name := r.c, r.s, r.name
	requests := txn.Requests{Store: s, Job: name}
	u, err := requests.LookUnreadable(ctx)
	if err != nil {
		return err
	}
	if len(u.Nodes) > 0 {
		return problem.New(problem.JobLive, "job %s has %s: %s", name, phrase.Count(len(u.Nodes), "node"),
			phrase.List(u.Nodes)).
			Because("it cannot be read: %v", cause).
			Cure("end their agents (Ctrl-C where they run), then elastic rm %s", name).
			Detail("nodes", u.Nodes)
	}
	c.Out.Say("job %s cannot be read: %v", name, cause)
	c.Out.Say("deletes on the server: everything of job %s (%s)", name, phrase.Count(u.Size(), "key"))
	if err := c.Confirm(fmt.Sprintf("remove job %s?", name)); err != nil {
		return err
	}
	if err := requests.RemoveUnreadable(ctx, u); err != nil {
		return err
	}
	if u.UID == "" {
		if c.Out.Json {
			return c.Out.Object(map[string]any{"job": name, "removed": true, "nodes": []string{}, "bytes": 0})
		}
		return c.Out.Line("job %s removed", name)
	}
	kept, err := target.Kept(c, name, u.UID)
	if err != nil {
		return err
	}
	return removed(c, name, kept)
}
