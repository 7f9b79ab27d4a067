package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// lost is the error of a command about a job that the server has lost, and that nodes claim.
func lost(name schema.Job, claims []rendezvous.Claim) *Error {
	nodes := claimants(claims)
	e := fail(JobLost, "the server lost job %s; nodes that were in it: %s", name,
		phrase.List(nodes)).detail("claims", nodes)
	v := rendezvous.Reclaim(claims, claims[0].Job.UID, false)
	if v.Newer != "" {
		v = rendezvous.Reclaim(claims, v.Newer, false)
	}
	e.detail("missing", append([]string{}, v.Missing...))
	switch {
	case v.Remake != nil:
		return e.because("it is made again now").cure("the same command again")
	case v.Holds != nil:
		e.because("waiting for %s: checkpoint %d is there and nowhere else", phrase.List(v.Missing), v.Holds.Number)
	case len(v.Missing) > 0:
		e.because("waiting for %s, to make it again", phrase.List(v.Missing))
	default:
		e.because("waiting for nodes that know more of it")
	}
	cure := "start them again where they ran, with the same line"
	if all := numbersOf(claims); len(all) > 0 {
		cure += fmt.Sprintf("; if they are gone for good: elastic ckpt restore %s N, for N one of %s", name, phrase.List(all))
	}
	return e.cure("%s", cure)
}

// vanished says what became of the job uid that was on the server, and is not in snap.
func vanished(ctx context.Context, s *server, snap *rendezvous.Snapshot, name schema.Job, uid schema.UID) error {
	if len(snap.Claims) > 0 {
		return lost(name, snap.Claims)
	}
	removed, err := txn.Requests{Store: s, Job: name}.Removed(ctx, uid)
	if err != nil {
		return err
	}
	if removed {
		return fail(JobNone, "job %s was removed", name)
	}
	return fail(JobLost, "the server lost job %s", name).because("nobody removed it, and no node that was in it claims it yet").
		cure("the same command again when its nodes have made it again; elastic status %s", name)
}

// remade is the error of a command that follows what it asked of a job, when the server lost that and holds it made
// again now; nil if it is not so. What was asked may be lost with the server.
func remade(snap, seen *rendezvous.Snapshot) error {
	if !snap.Job.Follows(seen.Job.UID) {
		return nil
	}
	return fail(JobLost, "the server lost job %s, and its nodes made it again", snap.Job.Name).
		because("what was asked of it before may be lost: np is %d now", snap.Wish.NP).cure("the same command again").detail("np", snap.Wish.NP)
}

// numbersOf are the checkpoints that the claimants have.
func numbersOf(claims []rendezvous.Claim) (all []string) {
	numbers := map[checkpoint.Number]bool{}
	for _, c := range claims {
		for _, h := range c.Heads {
			numbers[h.Number] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func claimants(claims []rendezvous.Claim) (nodes []string) {
	for _, k := range claims {
		nodes = append(nodes, k.Node)
	}
	return nodes
}

// lostJob is the error of a command that named no job, on a server that has none: nil if none is claimed either.
func lostJob(ctx context.Context, s *server) (*Error, error) {
	r, err := s.Get(ctx, schema.Root, store.End(schema.Root))
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	for _, e := range r.Entries {
		name, rest, _ := strings.Cut(strings.TrimPrefix(e.Key, schema.Root), "/")
		if !strings.HasPrefix(rest, "claims/") {
			continue
		}
		snap, err := rendezvous.Decode(schema.Job(name), r)
		if err != nil {
			return nil, err
		}
		if snap.Job == nil && len(snap.Claims) > 0 {
			return lost(schema.Job(name), snap.Claims), nil
		}
	}
	return nil, nil
}

// forget removes what this machine keeps of a job that the server does not hold, and tells the server, so
// that no other machine makes it again either. none is the error if there is nothing.
func (c *call) forget(ctx context.Context, s *server, snap *rendezvous.Snapshot, name schema.Job, none error) error {
	if nodes := claimants(snap.Claims); len(nodes) > 0 {
		return fail(JobLive, "job %s is claimed by %s", name, phrase.List(nodes)).because("the server lost it, and they were in it").
			cure("end their agents first").detail("nodes", nodes)
	}
	kept, err := c.keptOf(name)
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(k node.Kept) bool { return k.UID == "" })
	if len(kept) == 0 {
		return none
	}
	c.sayHere(kept)
	if err := c.confirm(fmt.Sprintf("remove what is left of job %s?", name)); err != nil {
		return err
	}
	for _, k := range kept {
		_, err := store.Send(ctx, s, store.Request{If: []store.Guard{store.Absent(name.Job())},
			Then: []store.Write{store.Put(name.Removed(k.UID), []byte("rm"))}})
		if err != nil && !errors.Is(err, store.ErrMoved) {
			return err
		}
	}
	return c.removed(name, kept[0].UID)
}

// keptOf is what the nodes of this host keep of jobs of that name.
func (c *call) keptOf(name schema.Job) ([]node.Kept, error) {
	state, err := local.State(c.setting("state-dir").text, c.Getenv)
	if err != nil {
		return nil, err
	}
	return node.KeptOf(state, name)
}

// insist makes a job that the server has lost again, without those who are missing.
func (k *saves) insist(ctx context.Context) error {
	claims := k.snap.Claims
	name := claims[0].Job.Name
	m := rendezvous.Insist(claims, k.number)
	if m == nil {
		all := numbersOf(claims)
		return fail(CkptNone, "nobody who claims job %s has checkpoint %d", name, k.number).because("they have %s", phrase.List(all)).
			detail("numbers", append([]string{}, all...))
	}
	job, err := txn.Requests{Store: k.s, Job: name}.Remake(ctx, txn.Remaking{Me: claims[0], Job: m, Own: claims[0].Job, Seen: &k.snap})
	if store.Moved(err) {
		return fail(JobLost, "job %s, or a claim to it, changed at this moment", name).cure("the same command again")
	}
	if err != nil {
		return err
	}
	k.snap.Job = &job
	text := fmt.Sprintf("job %s is made again from checkpoint %d%s, which is checkpoint %d now", name, m.Was, atStep(m.Head.Step), m.Head.Number)
	if len(m.Missing) > 0 {
		text += ", without " + phrase.List(m.Missing)
	}
	from := *m.Head
	from.Number = m.Was
	return k.restored(from, *m.Head, text)
}
