package main

import (
	"context"
	"encoding/gob"
	"fmt"
	"net"
	"time"
)

// joinLimit limits the wait for the other ranks. elastic ends this process sooner if a rank cannot
// start.
const joinLimit = 5 * time.Minute

// group connects all ranks with rank 0. A real trainer would use NCCL or gloo.
type group struct {
	rank  int
	peers []*peer // by rank; rank 0 has all others, another rank has only rank 0
}

type peer struct {
	net.Conn
	*gob.Encoder
	*gob.Decoder
}

// hello identifies the job and generation, so that other programs and generations are refused.
type hello struct {
	Job              string
	Generation, Size int
	Identity         string
	Rank             int
}

// join connects the ranks.
func join(ctx context.Context, w world, identity string) (g *group, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	g = &group{w.rank, make([]*peer, w.size)}
	h := hello{w.job, w.generation, w.size, identity, w.rank}
	if w.rank > 0 {
		err = g.dial(ctx, w.master, h)
	} else if w.size > 1 {
		err = g.listen(ctx, w.master, h)
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("meet %d ranks at %s: %w", w.size, w.master, err)
	}
	return g, nil
}

func (g *group) listen(ctx context.Context, master string, ours hello) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", master)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for missing := len(g.peers) - 1; missing > 0; {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		p := &peer{conn, gob.NewEncoder(conn), gob.NewDecoder(conn)}
		p.SetDeadline(time.Now().Add(5 * time.Second)) // another program may send nothing
		var theirs hello
		err = p.Decode(&theirs)
		ours.Rank = theirs.Rank
		if r := theirs.Rank; err == nil && theirs == ours && r > 0 && r < len(g.peers) && g.peers[r] == nil {
			p.SetDeadline(time.Time{})
			g.peers[r] = p
			missing--
		} else {
			p.Close()
		}
	}
	return nil
}

// dial tries again until rank 0 listens.
func (g *group) dial(ctx context.Context, master string, ours hello) error {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", master)
		if err == nil {
			g.peers[0] = &peer{conn, gob.NewEncoder(conn), gob.NewDecoder(conn)}
			return g.send(0, ours)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return err
		}
	}
}

// sum replaces v by the sum over all ranks. Rank 0 adds in the order of ranks, so the result is
// deterministic.
func (g *group) sum(v []float64) error {
	got := make([]float64, 0, len(v))
	if g.rank > 0 {
		if err := g.send(0, v); err != nil {
			return err
		}
		err := g.receive(0, &got)
		copy(v, got)
		return err
	}
	for r := 1; r < len(g.peers); r++ {
		if err := g.receive(r, &got); err != nil {
			return err
		}
		for i := range v {
			v[i] += got[i]
		}
	}
	return g.sendAll(v)
}

// newest replaces s by the state with the highest step of all ranks. It is enough if one node has
// the files.
func (g *group) newest(s *state) error {
	if g.rank > 0 {
		if err := g.send(0, s); err != nil {
			return err
		}
		*s = state{}
		return g.receive(0, s)
	}
	for r := 1; r < len(g.peers); r++ {
		var theirs state
		if err := g.receive(r, &theirs); err != nil {
			return err
		}
		if theirs.Step > s.Step {
			*s = theirs
		}
	}
	return g.sendAll(s)
}

func (g *group) sendAll(v any) error {
	for r := 1; r < len(g.peers); r++ {
		if err := g.send(r, v); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) send(rank int, v any) error { return lost(rank, g.peers[rank].Encode(v)) }

func (g *group) receive(rank int, v any) error { return lost(rank, g.peers[rank].Decode(v)) }

func lost(rank int, err error) error {
	if err != nil {
		return fmt.Errorf("%w to rank %d: %w", errLost, rank, err)
	}
	return nil
}

func (g *group) close() {
	for _, p := range g.peers {
		if p != nil {
			p.Close()
		}
	}
}
