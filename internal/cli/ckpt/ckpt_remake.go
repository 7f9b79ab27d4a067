package ckpt

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous/reclaim"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// remake makes a job again that the server has lost, without waiting for the missing nodes.
func (k *saves) remake(ctx context.Context) error {
	claims := k.snap.Claims
	name := claims[0].Job.Name
	m := reclaim.Without(claims, k.number)
	if m == nil {
		all := target.NumbersOf(claims)
		return problem.New(problem.CkptNone, "no node that claims job %s has checkpoint %d", name, k.number).
			Because("they have %s", phrase.List(all)).
			Detail("numbers", append([]string{}, all...))
	}
	job, err := txn.Requests{Store: k.s, Job: name}.Remake(ctx,
		txn.Remaking{Me: claims[0], Job: m, Own: m.Job, Seen: &k.snap})
	if store.Moved(err) {
		return problem.New(problem.JobLost, "job %s, or a claim to it, changed at this moment", name).
			Cure("the same command again")
	}
	if err != nil {
		return err
	}
	k.snap.Job = &job
	text := fmt.Sprintf("job %s is made again from checkpoint %d%s, which is checkpoint %d now",
		name, m.Was.Number, atStep(m.Head.Step), m.Head.Number)
	if len(m.Missing) > 0 {
		text += ", without " + phrase.List(m.Missing)
	}
	from := *m.Head
	from.Number = m.Was.Number
	return k.restored(from, *m.Head, text)
}
