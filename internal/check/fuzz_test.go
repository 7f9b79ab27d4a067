package check

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// answers gives the same answer to each request.
type answers struct {
	status int
	body   []byte
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status),
		Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

func (a answers) To(membership.Ref) http.RoundTripper { return a }

func (a answers) Probe(context.Context, membership.Ref) membership.Answer {
	return membership.Answer{Kind: membership.Same}
}

func (a answers) Reach(context.Context, membership.Ref, string) (membership.AnswerKind, error) {
	return membership.Same, nil
}

// FuzzRequest sends any request to a node that answers checks. None is a fault of the node, and
// none costs more than the time that it may ask for.
func FuzzRequest(f *testing.F) {
	f.Add(true, PullPath, "",
		[]byte(`{"round":"1","from":{"node":"b","incarnation":"i","address":"10.0.0.1:1"},"ms":1}`))
	f.Add(true, PullPath, "", []byte(`{"ms":9223372036854775807}`))
	f.Add(false, DataPath, "ms=-1", []byte(nil))
	f.Add(false, NowPath, "", []byte(nil))
	f.Fuzz(func(t *testing.T, post bool, path, query string, body []byte) {
		if path == DataPath {
			query = "ms=0" + query // as bytes that are sent it only takes time
		}
		s := NewServer(func(membership.Ref) http.RoundTripper { return answers{http.StatusOK, body} })
		mux := http.NewServeMux()
		for pattern, h := range s.Handlers() {
			mux.Handle(pattern, h)
		}
		r := httptest.NewRequest(http.MethodGet, "/", bytes.NewReader(body))
		if post {
			r.Method = http.MethodPost
		}
		r.URL = &url.URL{Path: path, RawQuery: query}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s %s: %s", r.Method, path, w.Body)
		}
	})
}

// FuzzTransfer has the other nodes answer a check with any bytes. What a node says of itself names
// no node that is none, and its words are bounded.
func FuzzTransfer(f *testing.F) {
	f.Add(200, []byte(`{"bytes_per_second":1e9}`))
	f.Add(200, []byte(`{"bytes_per_second":-1,"error":"a\u001b[2Jb\nc","unix_nano":-9223372036854775808}`))
	f.Add(503, []byte("too many"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		n := nodes("a", "a", "b", "c", "d")
		n.Link = answers{status, body}
		network := Network{Nodes: *n, MaxSkew: time.Second}
		for _, found := range []Finding{n.judgeTransfers(n.Transfer(t.Context(), time.Millisecond)),
			network.clocks(t.Context())} {
			if len(found.Text) > 4<<10 || len(found.Nodes) > len(n.Ring) {
				t.Errorf("it says %.200q, %d bytes", found.Text, len(found.Text))
			}
		}
	})
}
