package target

import (
	"context"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/reclaim"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// lostError returns the error of a command about a job that the server has lost and that nodes claim.
func lostError(name schema.Job, claims []rendezvous.Claim) *problem.Error {
	nodes := reclaim.Claimants(claims)
	e := problem.New(problem.JobLost, "the server lost job %s; nodes that claim it: %s",
		name, phrase.List(nodes)).Detail("claims", nodes)
	v := reclaim.DecideNewest(claims)
	e.Detail("missing", append([]string{}, v.Missing...))
	e.Because("%s", v.Text())
	switch {
	case v.Remake != nil:
		return e.Cure("the same command again")
	case v.Holds != nil && len(v.Missing) == 0:
		return e.Cure("start a node that has it; to begin anew: elastic rm %s", name)
	}
	cure, gone := "start them again where they ran, with the same line", "they are gone for good"
	if len(v.Blank) > 0 {
		gone = "their disks are lost"
	}
	if all := NumbersOf(claims); len(all) > 0 {
		cure += fmt.Sprintf("; if %s: elastic ckpt restore %s N, for N one of %s", gone, name, phrase.List(all))
	}
	return e.Cure("%s", cure)
}

// vanishedError returns the error of a command whose job was on the server and is not in snap.
func vanishedError(ctx context.Context, s *Server, snap *rendezvous.Snapshot, job *rendezvous.Job) error {
	name := job.Name
	if len(snap.Claims) > 0 {
		return lostError(name, snap.Claims)
	}
	removed, err := txn.Requests{Store: s, Job: name}.Removed(ctx, job.UID)
	if err != nil {
		return err
	}
	if removed {
		return problem.New(problem.JobNone, "job %s was removed", name)
	}
	return problem.New(problem.JobLost, "the server lost job %s", name).
		Because("it was not removed, and no node that was in it claims it yet").
		Cure("the same command again when its nodes have made it again; elastic status %s", name)
}

// Remade returns the error of a command that follows its request, if the server lost the job and
// nodes made it again since; else nil. The request may be lost with the server.
func Remade(snap, seen *rendezvous.Snapshot) error {
	if !snap.Job.Follows(seen.Job.UID) {
		return nil
	}
	return problem.New(problem.JobLost, "the server lost job %s, and its nodes made it again", snap.Job.Name).
		Because("earlier requests may be lost: np is %d now", snap.Wish.NP).
		Cure("the same command again").Detail("np", snap.Wish.NP)
}

// NumbersOf returns the numbers of the checkpoints that the claimants have.
func NumbersOf(claims []rendezvous.Claim) (all []string) {
	for _, n := range reclaim.Choices(claims) {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

// lostJob returns the error of a command without a job name, on a server that has no job but claims
// for one. It returns nil if there is no claim either.
func lostJob(ctx context.Context, s *Server) (*problem.Error, error) {
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
			return lostError(schema.Job(name), snap.Claims), nil
		}
	}
	return nil, nil
}
