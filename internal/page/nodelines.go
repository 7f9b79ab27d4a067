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
	"github.com/elasticd/elastic/pkg/store"
)

// NodeLines reads lines from the listeners of the nodes of a job.
func NodeLines(s Source) Lines {
	return func(ctx context.Context, a Ask) (Read, error) {
		r, err := s.Get(ctx, a.Job.Prefix(), store.End(a.Job.Prefix()))
		if err != nil {
			return Read{}, err
		}
		snap, err := rendezvous.DecodePart(a.Job, r)
		if err != nil {
			return Read{}, err
		}
		if snap.Job == nil {
			return Read{}, fmt.Errorf("there is no job %s", a.Job)
		}
		secret, err := s.Get(ctx, a.Job.Secret(snap.Job.UID), "")
		if err != nil {
			return Read{}, err
		}
		if secret.One() == nil {
			return Read{}, errors.New("the secret of the job cannot be read, so its nodes do not answer")
		}
		c, err := peer.Dial(secret.One().Value, peer.Self{Hello: func() peer.Hello {
			return peer.Hello{Job: a.Job, UID: snap.Job.UID}
		}})
		if err != nil {
			return Read{}, err
		}
		defer c.Close()
		return gather(ctx, a, &snap, c.To), nil
	}
}

// gather asks all registered nodes at the same time.
func gather(
	ctx context.Context, a Ask, snap *rendezvous.Snapshot, to func(membership.Ref) http.RoundTripper,
) Read {
	q := query(a, snap)
	read := Read{Lines: []Line{}, Notes: []string{}}
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, n := range snap.Nodes {
		work.Go(func() {
			var own []Line
			err := logs.Fetch(ctx, to(n.Ref), q, func(l logs.Line) error {
				own = append(own, lineOf(l))
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			read.Lines = append(read.Lines, own...)
			if err != nil {
				read.Notes = append(read.Notes, fmt.Sprintf("node %s: %v", n.Node, err))
			}
		})
	}
	work.Wait()
	slices.SortStableFunc(read.Lines, func(a, b Line) int { return int(a.At - b.At) })
	if over := len(read.Lines) - MostLines; over > 0 {
		read.Lines = read.Lines[over:]
		read.Notes = append(read.Notes, fmt.Sprintf("the newest %d lines; all: elastic logs %s",
			MostLines, a.Job))
	}
	slices.Sort(read.Notes)
	return read
}

func query(a Ask, snap *rendezvous.Snapshot) logs.Query {
	q := logs.Query{Job: string(a.Job), Generation: a.Generation, Since: snap.Job.Time, Last: MostLines,
		After: a.From, Until: a.To}
	if a.Rank >= 0 {
		q.Ranks = []int{a.Rank}
	}
	return q
}

func lineOf(l logs.Line) Line {
	line := Line{Rank: l.Rank, Node: l.Node, Process: l.Process, Text: l.Text}
	if !l.Time.IsZero() {
		line.At = l.Time.UnixMilli()
	}
	return line
}
