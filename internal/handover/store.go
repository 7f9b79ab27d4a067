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
	Values [][]byte `json:"values"` // get: of each key; add, compare: the new value of the key
	// check: all keys exist; get: all keys exist in time; delete: the key existed
	Found bool   `json:"found"`
	Error string `json:"error,omitempty"` // why the request was refused
}

// Storage answers the requests of the workers of this node, with the Store of rank 0's node.
type Storage interface {
	Do(ctx context.Context, r Request) (Reply, error)
}

// The limits of the store of one generation.
const (
	mostKeys  = 1 << 20
	mostBytes = 256 << 20 // of keys and values
	mostReply = 2 << 20   // of the values of one reply, because a request can name a key many times
)

// The errors for a request that exceeds a limit.
var (
	full     = Reply{Error: "the store of this generation is full"}
	tooLarge = Reply{Error: fmt.Sprintf("the values that are asked for have more than %d bytes", mostReply)}
)

// ErrOldGeneration means that a request is for an older generation than the store's.
var ErrOldGeneration = errors.New("a newer generation is at hand")

// Store has the values of the newest generation. The agent of rank 0 keeps it, so that it outlives
// every worker. The generation ends if that agent ends.
type Store struct {
	mu         sync.Mutex // guards what follows
	generation uint64
	values     map[string][]byte
	bytes      int
	changed    chan struct{} // closed at the next change, or when a newer generation starts
}

// Do carries out a request. A get waits for its keys until its time limit, or until ctx ends. The
// first request of a newer generation clears the store. Requests of older ones then fail with
// ErrOldGeneration.
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

// once carries out a request without waiting. The channel is closed at the next change.
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

// wake makes all waiting requests check again. mu is held.
func (s *Store) wake() {
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// apply carries out a request on the values. mu is held.
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

// compare is torch's compare_set. A missing key is set if no value was expected.
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

// put sets a value. It returns false if the store is full. mu is held.
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

// serveStore answers the requests of one connection one after the other.
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
		if sendLine(c, reply) != nil {
			return
		}
	}
}
