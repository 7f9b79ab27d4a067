package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/peer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// NodeLines reads lines from the listeners of the nodes of a job.
func NodeLines(s Source) Lines {
	return func(ctx context.Context, q logs.Query) ([]logs.Line, []string, error) {
		job := schema.Job(q.Job)
		r, err := s.Get(ctx, job.Prefix(), store.End(job.Prefix()))
		if err != nil {
			return nil, nil, err
		}
		snap, err := rendezvous.DecodePart(job, r)
		if err != nil {
			return nil, nil, err
		}
		if snap.Job == nil {
			return nil, nil, fmt.Errorf("there is no job %s", job)
		}
		secret, err := s.Get(ctx, job.Secret(snap.Job.UID), "")
		if err != nil {
			return nil, nil, err
		}
		if secret.One() == nil {
			return nil, nil, errors.New("the secret of the job cannot be read, so its nodes do not answer")
		}
		c, err := peer.Dial(secret.One().Value, peer.Self{Hello: func() peer.Hello {
			return peer.Hello{Job: job, UID: snap.Job.UID}
		}})
		if err != nil {
			return nil, nil, err
		}
		defer c.Close()
		q.Since, q.Last = snap.Job.Time, MostLines
		lines, notes := gather(ctx, q, snap.Nodes, c.To)
		return lines, notes, nil
	}
}

// gather asks all nodes at the same time.
func gather(
	ctx context.Context, q logs.Query, nodes []membership.Node, to func(membership.Ref) http.RoundTripper,
) (lines []logs.Line, notes []string) {
	lines, notes = []logs.Line{}, []string{} // in JSON no null
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, n := range nodes {
		work.Go(func() {
			var own []logs.Line
			err := logs.Fetch(ctx, to(n.Ref), q, func(l logs.Line) error {
				own = append(own, l)
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, own...)
			if err != nil {
				notes = append(notes, fmt.Sprintf("node %s: %v", n.Node, err))
			}
		})
	}
	work.Wait()
	slices.SortStableFunc(lines, func(a, b logs.Line) int { return a.Time.Compare(b.Time) })
	if over := len(lines) - MostLines; over > 0 {
		lines = lines[over:]
		notes = append(notes, fmt.Sprintf("the newest %d lines; all: elastic logs %s", MostLines, q.Job))
	}
	slices.Sort(notes)
	return lines, notes
}
