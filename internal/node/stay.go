package node

// This file serves workers that can stay for another generation. It has a socket to which they
// connect, and a store in which the workers of all nodes find each other.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/internal/handover"
	"github.com/elasticd/elastic/internal/node/peers"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Stay is the socket of one node. The agent of rank 0 also has the store of a generation. The other
// agents forward the requests of their workers to it.
type Stay struct {
	peers  *peers.Peers
	node   string
	server *handover.Server // nil: it could not be opened, and no worker can stay
	store  handover.Store
	world  atomic.Pointer[rendezvous.World] // the world of the workers here
}

// storePath is the URL path of the store of rank 0's agent.
const storePath = "/handover/store"

// waitSlice is the longest time that one request to the agent of rank 0 waits for a key. A longer
// wait sends several requests.
const waitSlice = 5 * time.Second

// openStay opens the socket in dir. If that fails, err is the reason, and the Stay can still be used:
// the node ends its workers at each change, and starts new ones.
func openStay(dir, node string, p *peers.Peers) (s *Stay, err error) {
	s = &Stay{peers: p, node: node}
	if s.server, err = handover.Listen(filepath.Join(dir, "socket"), s); err != nil {
		return s, err
	}
	p.Server.Handle("POST "+storePath, http.HandlerFunc(s.answer))
	return s, nil
}

// Path returns the path of the socket; "" if there is none.
func (s *Stay) Path() string {
	if s.server == nil {
		return ""
	}
	return s.server.Path()
}

// Expect accepts connections from so many workers of a generation.
func (s *Stay) Expect(g schema.Generation, workers int) *handover.Group {
	if s.server == nil {
		return handover.NewGroup(uint64(g), workers) // no worker connects
	}
	return s.server.Expect(uint64(g), workers)
}

// Begin sets the world of the workers on this node.
func (s *Stay) Begin(world rendezvous.World) { s.world.Store(&world) }

// Close closes the socket. A nil Stay was never opened.
func (s *Stay) Close() {
	if s != nil && s.server != nil {
		s.server.Close()
	}
}

// Do answers a request of a worker here, or forwards it to the agent of rank 0.
func (s *Stay) Do(ctx context.Context, r handover.Request) (handover.Reply, error) {
	world := s.world.Load()
	if world == nil || uint64(world.Generation) != r.Generation {
		return handover.Reply{}, handover.ErrOldGeneration
	}
	if world.Members[0].Node == s.node {
		return s.store.Do(ctx, r)
	}
	for end := time.Now().Add(time.Duration(r.WaitMS) * time.Millisecond); ; {
		r.WaitMS = min(time.Until(end), waitSlice).Milliseconds()
		reply, err := s.ask(ctx, world.Members[0], r)
		if err != nil || reply.Found || reply.Error != "" || r.Op != "get" || !time.Now().Before(end) {
			return reply, err
		}
	}
}

// ask sends one request to the agent of rank 0.
func (s *Stay) ask(
	ctx context.Context, to membership.Ref, r handover.Request,
) (reply handover.Reply, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return reply, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://node"+storePath,
		bytes.NewReader(body))
	if err != nil {
		return reply, err
	}
	res, err := s.peers.To(to).RoundTrip(req)
	if err != nil {
		return reply, fmt.Errorf("ask %s for the store of generation %d: %w", to.Node, r.Generation, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return reply, fmt.Errorf("ask %s for the store of generation %d: %s", to.Node, r.Generation, res.Status)
	}
	err = json.NewDecoder(io.LimitReader(res.Body, longestRequest)).Decode(&reply)
	return reply, err
}

// longestRequest is the largest request that an agent takes: a value and its JSON.
const longestRequest = 4 << 20

// answer serves a request of another agent. This node is rank 0 of that agent's world.
func (s *Stay) answer(out http.ResponseWriter, req *http.Request) {
	var r handover.Request
	b, err := io.ReadAll(http.MaxBytesReader(out, req.Body, longestRequest))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		http.Error(out, "no request to the store", http.StatusBadRequest)
		return
	}
	// This node has been ready for each generation that runs, so it knows the newest one.
	if newest := s.peers.Self().Generation; schema.Generation(r.Generation) > newest {
		http.Error(out, "that generation is not known here", http.StatusConflict)
		return
	}
	r.WaitMS = min(r.WaitMS, waitSlice.Milliseconds())
	reply, err := s.store.Do(req.Context(), r)
	if errors.Is(err, handover.ErrOldGeneration) {
		http.Error(out, err.Error(), http.StatusGone)
		return
	}
	if err != nil {
		return // the agent that asked has closed the connection
	}
	_ = json.NewEncoder(out).Encode(reply) // if the reply is lost, the agent asks again
}
