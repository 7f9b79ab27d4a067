package joining

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
)

// requestLimit is the limit of a request that changes the job before this node has joined it.
const requestLimit = 10 * time.Second

// create makes the job.
func (j *Joiner) create(ctx context.Context) error {
	job := j.Job
	job.UID, job.Attempt, job.Time = schema.UID(rand.Text()), 1, time.Now()
	job.Resumes = j.state.resumes
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return j.requests.Create(ctx, job)
}
