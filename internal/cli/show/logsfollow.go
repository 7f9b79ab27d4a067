package show

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// batchTime is how long lines are collected before they are folded and printed.
const batchTime = 250 * time.Millisecond

// followLogs prints new lines until the job ends. It also reads the logs of nodes that join later.
func (r *reading) followLogs(ctx context.Context, s *target.Server) error {
	r.Out.Say("following job %s until it ends", r.snap.Job.Name)
	ctx, cancel := context.WithCancel(ctx)
	var readers sync.WaitGroup
	lines := make(chan logs.Line, 256)
	over := make(chan error, 1)
	known := map[string]bool{}
	go func() {
		err := target.Followed{Call: r.Call, Server: s, Seen: r.snap}.Follow(ctx,
			func(snap *rendezvous.Snapshot) (bool, error) {
				r.snap = snap
				return target.Ended(snap), r.readNew(ctx, &readers, known, lines)
			})
		if err == nil {
			_ = target.Pause(ctx, 4*batchTime) // waits for the last lines
		}
		cancel()
		readers.Wait()
		over <- err
	}()
	tick := time.NewTicker(batchTime)
	defer tick.Stop()
	var batch []logs.Line
	for {
		select {
		case l := <-lines:
			batch = append(batch, l)
			continue
		case <-tick.C:
			if err := r.print(batch); err != nil {
				cancel()
				<-over
				return err
			}
			batch = batch[:0]
		case err := <-over:
			return errors.Join(r.print(batch), err)
		}
	}
}

// readNew starts to read the logs of nodes that are not read yet.
func (r *reading) readNew(
	ctx context.Context, readers *sync.WaitGroup, known map[string]bool, lines chan<- logs.Line,
) error {
	all, err := r.sources()
	if err != nil {
		return err
	}
	query := r.query
	query.Follow = true
	r.query.Last = 0 // a node that joins later is read from its beginning
	for _, s := range all {
		if known[s.key] {
			continue
		}
		known[s.key] = true
		readers.Go(func() {
			err := s.readJoined(ctx, query, func(l logs.Line) error {
				select {
				case lines <- l:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			if err != nil && ctx.Err() == nil && !errors.Is(err, logs.ErrCut) {
				r.unread(s.node, err)
			}
		})
	}
	return nil
}

// joinTries bounds how often a node that has just joined is asked again.
const joinTries = 40

// readJoined reads the logs of a node that may just have joined.
func (s source) readJoined(ctx context.Context, q logs.Query, emit func(logs.Line) error) (err error) {
	for range joinTries {
		if err = s.read(ctx, q, emit); !errors.Is(err, logs.ErrJoining) {
			return err
		}
		if target.Pause(ctx, batchTime) != nil {
			break
		}
	}
	return err
}
