package target

import (
	"context"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
)

// vanishedError returns the error of a command whose job was on the server and is not there any more.
func vanishedError(ctx context.Context, s *Server, job *rendezvous.Job) error {
	removed, err := txn.Requests{Store: s, Job: job.Name}.Removed(ctx, job)
	if err != nil {
		return err
	}
	if removed {
		return problem.New(problem.JobNone, "job %s was removed", job.Name)
	}
	return problem.New(problem.JobLost, "the server lost job %s", job.Name).
		Because("it was not removed; agents of it that live make it again within seconds").
		Cure("the same command again; if no agent lives: elastic recover %s", job.Name)
}

// Remade returns the error of a command that follows its request, if the server lost the job and
// nodes made it again since; else nil. The request may be lost with the server.
func Remade(snap, seen *rendezvous.Snapshot) error {
	if !snap.Job.Same(seen.Job) || snap.Job.Remade <= seen.Job.Remade {
		return nil
	}
	return problem.New(problem.JobLost, "the server lost job %s, and its nodes made it again", snap.Job.Name).
		Because("earlier requests may be lost: np is %d now", snap.Wish.NP).
		Cure("the same command again").Detail("np", snap.Wish.NP)
}
