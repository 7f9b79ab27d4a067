package joining

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// requestLimit is the limit of a request that changes the job before this node has joined it.
const requestLimit = 10 * time.Second

// create makes the job. It resumes if nodes may bring checkpoints to it, in the moment in which it is made.
func (j *Joiner) create(ctx context.Context) error {
	job := j.Job
	job.UID, job.Attempt, job.Time = schema.UID(rand.Text()), 1, time.Now()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	allowed, rev, err := j.requests.MayResume(ctx)
	if err != nil {
		return err
	}
	job.Resumes = allowed != nil && !j.Again
	return j.requests.Create(ctx, job, store.Unchanged(j.Job.Name.Resume(), rev))
}
