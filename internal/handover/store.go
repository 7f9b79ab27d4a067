package handover

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// Request is one request of a worker to the store of its generation.
type Request struct {
	Generation uint64   `json:"generation"`
	Op         string   `json:"op"` // set, get, check, add, compare, delete
	Keys       []string `json:"keys"`
	Values     [][]byte `json:"values,omitempty"` // set: of each key; compare: expected, desired
	Delta      int64    `json:"delta,omitempty"`  // add
	WaitMS     int64    `json:"wait_ms,omitempty"`
}

// Reply answers a Request.
type Reply struct {
	Values [][]byte `json:"values"` // get: of each key; add, compare: what the key has now
	// check: all keys are there; get: so they are, in time; delete: it was there
	Found bool   `json:"found"`
	Error string `json:"error,omitempty"` // the request was refused
}

// Storage answers the requests of the workers here: with the Store of the node of rank 0, wherever
// that is.
type Storage interface {
	Do(ctx context.Context, r Request) (Reply, error)
}

// What one generation may keep.
const (
	mostKeys  = 1 << 20
	mostBytes = 256 << 20 // of keys and values
	mostReply = 2 << 20   // of the values of one reply: a request may name a key many times
)

// The answers to a request that asks for too much.
var (
	full     = Reply{Error: "the store of this generation is full"}
	tooLarge = Reply{Error: fmt.Sprintf("the values that are asked for have more than %d bytes", mostReply)}
)

// ErrOldGeneration: a newer generation is at hand.
var ErrOldGeneration = errors.New("a newer generation is at hand")

// Store is the values of the newest generation. It is on the agent of rank 0: it outlives every
// worker, and with the agent the generation ends.
type Store struct {
	mu         sync.Mutex // guards what follows
	generation uint64
	values     map[string][]byte
	bytes      int
	changed    chan struct{} // closed at the next change, or when a newer generation begins
}

// Do carries a request out. A get waits for its keys for as long as it says, and until ctx ends.
// The first request of a newer generation forgets the one before: ErrOldGeneration for all that is
// asked of it.
func (s *Store) Do(ctx context.Context, r Request) (Reply, error) {
	limit := time.NewTimer(time.Duration(r.WaitMS) * time.Millisecond)
	defer limit.Stop()
	for {
		reply, changed, err := s.once(r)
		if err != nil || reply.Found || reply.Error != "" || r.Op != "get" {
			return reply, err
		}
		select {
		case <-changed:
		case <-limit.C:
			return reply, nil
		case <-ctx.Done():
			return reply, context.Cause(ctx)
		}
	}
}

// once carries a request out as far as it can be now, and returns what is closed at the next
// change.
func (s *Store) once(r Request) (Reply, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Generation < s.generation:
		return Reply{}, nil, ErrOldGeneration
	case r.Generation > s.generation || s.values == nil:
		s.wake()
		s.generation, s.values, s.bytes = r.Generation, map[string][]byte{}, 0
	}
	reply := s.apply(r)
	return reply, s.changed, nil
}

// wake has all waiting requests look again. mu is held.
func (s *Store) wake() {
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// apply carries a request out on the values. mu is held.
func (s *Store) apply(r Request) Reply {
	if len(r.Keys) == 0 {
		return Reply{Error: "a request without a key"}
	}
	key := r.Keys[0]
	switch {
	case r.Op == "set" && len(r.Values) == len(r.Keys):
		for i, k := range r.Keys {
			if !s.put(k, r.Values[i]) {
				return full
			}
		}
		return Reply{Found: true}
	case r.Op == "get", r.Op == "check":
		return s.find(r)
	case r.Op == "add":
		n, err := strconv.ParseInt(string(s.values[key]), 10, 64)
		if err != nil && len(s.values[key]) > 0 {
			return Reply{Error: "add to " + key + ": its value is no number"}
		}
		sum := []byte(strconv.FormatInt(n+r.Delta, 10))
		if !s.put(key, sum) {
			return full
		}
		return Reply{Found: true, Values: [][]byte{sum}}
	case r.Op == "compare" && len(r.Values) == 2:
		return s.compare(key, r.Values[0], r.Values[1])
	case r.Op == "delete":
		value, found := s.values[key]
		if found {
			s.bytes -= len(key) + len(value)
			delete(s.values, key)
		}
		return Reply{Found: found}
	}
	return Reply{Error: "no such request: " + r.Op}
}

func (s *Store) find(r Request) Reply {
	reply := Reply{Found: true}
	size := 0
	for _, k := range r.Keys {
		v, ok := s.values[k]
		if !ok {
			return Reply{}
		}
		if r.Op == "get" {
			reply.Values = append(reply.Values, v)
			size += len(v)
		}
		if size > mostReply {
			return tooLarge
		}
	}
	return reply
}

// compare is torch's compare_set: a key that is not there is set if nothing was expected.
func (s *Store) compare(key string, expected, desired []byte) Reply {
	now, ok := s.values[key]
	if !ok && len(expected) > 0 {
		return Reply{Values: [][]byte{expected}}
	}
	if !ok || bytes.Equal(now, expected) {
		if !s.put(key, desired) {
			return full
		}
		return Reply{Found: true, Values: [][]byte{desired}}
	}
	return Reply{Values: [][]byte{now}}
}

// put sets a value, unless there is no room. mu is held.
func (s *Store) put(key string, value []byte) bool {
	old, ok := s.values[key]
	more := len(value) - len(old)
	if !ok {
		more += len(key)
	}
	if !ok && len(s.values) >= mostKeys || s.bytes+more > mostBytes {
		return false
	}
	s.bytes += more
	s.values[key] = bytes.Clone(value)
	s.wake()
	return true
}

// serveStore answers the requests of one connection in turn.
func (g *Group) serveStore(c net.Conn, in *bufio.Scanner, storage Storage) {
	for in.Scan() {
		var r Request
		if json.Unmarshal(in.Bytes(), &r) != nil {
			return
		}
		g.mu.Lock()
		requests, generation := g.requests, g.generation
		g.mu.Unlock()
		var reply Reply
		err := ErrOldGeneration
		if r.Generation == generation {
			ctx, cancel := requests.Context(context.Background())
			reply, err = storage.Do(ctx, r)
			cancel()
		}
		if err != nil {
			reply = Reply{Error: err.Error()}
		}
		if say(c, reply) != nil {
			return
		}
	}
}
