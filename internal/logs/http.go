package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Path is the URL path of the logs on a node's listener.
const Path = "/logs"

// alive is how often a listener sends an empty message while no worker writes.
const alive = 5 * time.Second

// Handler serves the logs in dir, as one JSON message per line.
func Handler(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Query
		if err := json.Unmarshal([]byte(r.URL.Query().Get("q")), &q); err != nil {
			http.Error(w, "the query is not JSON", http.StatusBadRequest)
			return
		}
		out := &sender{follow: q.Follow, out: json.NewEncoder(w), control: http.NewResponseController(w)}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		w.WriteHeader(http.StatusOK)
		if q.Follow {
			go out.keepAlive(ctx, cancel)
		}
		if err := Read(ctx, dir, q, out.send); err != nil && ctx.Err() == nil {
			out.put(message{Error: err.Error()})
		}
		out.put(message{End: true})
	})
}

// message is one line of a reply: a Line, an error, or the end. An empty message shows that the
// sender is alive.
type message struct {
	Line  *Line  `json:"line,omitempty"`
	Error string `json:"error,omitempty"`
	End   bool   `json:"end,omitempty"`
}

// sender writes a reply. Several goroutines use it.
type sender struct {
	follow  bool // send each line at once
	control *http.ResponseController

	mu  sync.Mutex
	out *json.Encoder
}

func (s *sender) send(l Line) error { return s.put(message{Line: &l}) }

func (s *sender) put(m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(m); err != nil || !s.follow {
		return err
	}
	return s.control.Flush()
}

func (s *sender) keepAlive(ctx context.Context, cancel context.CancelFunc) {
	for {
		if s.put(message{}) != nil {
			cancel()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(alive):
		}
	}
}

// longestMessage is more than any line needs: a line is cut at longestLine, and JSON writes a byte
// as at most six.
const longestMessage = 8*longestLine + 64<<10

// bounded is a stream that limits the size of each message.
type bounded struct {
	in   io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the node sends a message without an end")
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// ErrCut means that the reply of a node ended too early.
var ErrCut = errors.New("the node did not answer to the end")

// ErrJoining means that a node does not know its registration yet: it has just joined.
var ErrJoining = errors.New("the node is joining, or was started again")

// Fetch reads the logs of another node. It returns ErrJoining or ErrCut in these cases. to is the
// transport to its listener.
func Fetch(ctx context.Context, to http.RoundTripper, q Query, emit func(Line) error) error {
	b, err := json.Marshal(q)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://node"+Path+"?q="+
		url.QueryEscape(string(b)), nil)
	if err != nil {
		return err
	}
	res, err := to.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusMisdirectedRequest {
		return ErrJoining
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the node answers %s", res.Status)
	}
	body := &bounded{in: res.Body}
	in := json.NewDecoder(body)
	for {
		var m message
		body.left = longestMessage
		err := in.Decode(&m)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return ErrCut
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		case m.End:
			return nil
		case m.Line != nil:
			if err := emit(*m.Line); err != nil {
				return err
			}
		}
	}
}
