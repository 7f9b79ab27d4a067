package change

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// forget removes the data of a job that the server does not have from this machine. It also writes
// a tombstone to the server, so that no other machine makes the job again. It returns none if this
// machine has no data.
func (r removal) forget(ctx context.Context, claims []rendezvous.Claim, none error) error {
	c, s, name := r.c, r.s, r.name
	var nodes []string
	for _, k := range claims {
		nodes = append(nodes, k.Node)
	}
	if len(nodes) > 0 {
		return problem.New(problem.JobLive, "job %s is claimed by %s", name, phrase.List(nodes)).
			Because("the server lost it, and they were in it").
			Cure("end their agents first").Detail("nodes", nodes)
	}
	kept, err := target.KeptOf(c, name)
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(k disk.Kept) bool { return k.UID == "" })
	if len(kept) == 0 {
		return none
	}
	sayHere(c, kept)
	if err := c.Confirm(fmt.Sprintf("remove what is left of job %s?", name)); err != nil {
		return err
	}
	var uids []schema.UID
	for _, k := range kept {
		uids = append(uids, k.UID)
		_, err := store.Send(ctx, s, store.Request{If: []store.Guard{store.Absent(name.Job())},
			Then: []store.Write{store.Put(name.Removed(k.UID), []byte("rm"))}})
		if err != nil && !errors.Is(err, store.ErrMoved) {
			return err
		}
	}
	return removed(c, name, uids...)
}
