package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// What a node's listener offers to checks. Only agents and commands of the job can use it. Its work
// is limited in time and number.
const (
	NowPath  = "/check/now"
	DataPath = "/check/data"
	PullPath = "/check/pull"
)

const (
	maxTransfer = 10 * time.Second
	maxSending  = 8   // concurrent transfers from a node
	maxRounds   = 256 // results that a node keeps
	blockBytes  = 256 << 10
)

// Server serves the checks of other nodes.
type Server struct {
	to      func(membership.Ref) http.RoundTripper
	sending chan struct{}

	mu     sync.Mutex
	rounds map[string]*pulled
}

// pulled is one transfer, shared by all nodes that requested it.
type pulled struct {
	done   chan struct{}
	result Pulled // set before done is closed
}

// Pulled is the result of a transfer to a node.
type Pulled struct {
	Rate float64 `json:"bytes_per_second"`
	Err  string  `json:"error,omitempty"`
}

// pull asks a node to fetch bytes from another one.
type pull struct {
	Round string         `json:"round"` // all requests for the same round get the same result
	From  membership.Ref `json:"from"`
	MS    int64          `json:"ms"`
}

// NewServer returns a Server. to returns the transport to another node.
func NewServer(to func(membership.Ref) http.RoundTripper) *Server {
	return &Server{to: to, sending: make(chan struct{}, maxSending), rounds: map[string]*pulled{}}
}

// Handlers returns the handlers of the node's listener.
func (s *Server) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"GET " + NowPath:   http.HandlerFunc(s.now),
		"GET " + DataPath:  http.HandlerFunc(s.data),
		"POST " + PullPath: http.HandlerFunc(s.pull),
	}
}

// moment is a reading of a clock.
type moment struct {
	UnixNano int64 `json:"unix_nano"`
}

func (s *Server) now(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(moment{time.Now().UnixNano()}) // if the reply is lost, the peer asks again
}

// data sends bytes for the requested time.
func (s *Server) data(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.ParseInt(r.URL.Query().Get("ms"), 10, 64)
	if err != nil || ms <= 0 || ms > maxTransfer.Milliseconds() {
		http.Error(w, "ms is 1 to "+strconv.FormatInt(maxTransfer.Milliseconds(), 10), http.StatusBadRequest)
		return
	}
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	default:
		http.Error(w, "too many transfers at a time", http.StatusServiceUnavailable)
		return
	}
	block := make([]byte, blockBytes)
	for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// pull fetches bytes from another node, once per round.
func (s *Server) pull(w http.ResponseWriter, r *http.Request) {
	var q pull
	if err := json.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(&q); err != nil || q.MS <= 0 ||
		q.MS > maxTransfer.Milliseconds() {
		http.Error(w, "a round, a node and 1 to 10000 ms are asked for", http.StatusBadRequest)
		return
	}
	p, mine := s.round(q.Round + " " + string(q.From.Incarnation))
	switch {
	case p == nil:
		http.Error(w, "too many transfers at a time", http.StatusServiceUnavailable)
		return
	case mine:
		p.result = s.fetch(q) // without the request's context, because other requests wait for it
		close(p.done)
	}
	select {
	case <-p.done:
		_ = json.NewEncoder(w).Encode(p.result) // if the reply is lost, the peer asks again
	case <-r.Context().Done():
	}
}

// round returns the transfer of a key, and whether the caller must run it; nil: too many transfers
// are running.
func (s *Server) round(key string) (p *pulled, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.rounds[key]; p != nil {
		return p, false
	}
	underWay := 0
	for _, old := range s.rounds {
		select {
		case <-old.done:
		default:
			underWay++
		}
	}
	if underWay >= maxSending {
		return nil, false
	}
	if len(s.rounds) >= maxRounds {
		for k, old := range s.rounds {
			select {
			case <-old.done:
				delete(s.rounds, k)
			default:
			}
		}
	}
	p = &pulled{done: make(chan struct{})}
	s.rounds[key] = p
	return p, true
}

func (s *Server) fetch(q pull) Pulled {
	limit := time.Duration(q.MS) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Second)
	defer cancel()
	rate, err := download(ctx, s.to(q.From), limit)
	if err != nil {
		return Pulled{Err: err.Error()}
	}
	return Pulled{Rate: rate}
}

// download measures the rate of bytes from a node, starting at the first byte.
func download(ctx context.Context, from http.RoundTripper, limit time.Duration) (rate float64, err error) {
	url := fmt.Sprintf("https://node%s?ms=%d", DataPath, limit.Milliseconds())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := from.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the node answers %s", res.Status)
	}
	began := time.Now()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		return 0, fmt.Errorf("the transfer broke off after %d bytes: %w", n, err)
	}
	return float64(n) / max(time.Since(began).Seconds(), 1e-3), nil
}
