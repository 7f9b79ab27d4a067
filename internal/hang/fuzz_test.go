package hang

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/pkg/membership"
)

// answers gives the same answer to each request.
type answers []byte

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a))}, nil
}

// still is the workers of one node, which show no sign of life.
type still struct{ evidence []Evidence }

func (still) Pulses() []Pulse                   { return nil }
func (still) Ending() bool                      { return false }
func (still) Done() <-chan struct{}             { return nil }
func (s still) Look(context.Context) []Evidence { return s.evidence }
func (still) Progress() []string                { return []string{paced, paced} }

const paced = `{"own":0.01,"whole":0.02}`

var seventh = diagnosis.Collective{Seq: 7, Name: "gloo:all_reduce"}

func watchOf(t *testing.T, to http.RoundTripper) *Watch {
	members := []membership.Ref{{Node: "a"}, {Node: "b"}}
	return &Watch{World: World{Job: "x", Generation: 7, Slots: 2, Members: members}, Node: "a",
		Logs:    t.TempDir(),
		Timeout: time.Second,
		Workers: still{[]Evidence{{Rank: 0, State: "S", Collective: &seventh},
			{Rank: 1, State: "S", Collective: &seventh}}},
		To: func(membership.Ref) http.RoundTripper { return to }}
}

// FuzzEvidence has another node answer with any bytes. The hang that is found is of a rank of the
// job, and the message is one line.
func FuzzEvidence(f *testing.F) {
	f.Add([]byte(`[{"rank":2,"state":"S","stack":"  File \"t.py\", line 8 in lock\n"},{"rank":3,"state":"D"}]`))
	f.Add([]byte(`[{"rank":2,"progress":"{\"step\":1}"},{"rank":3,"progress":"{\"step\":2}","flight":"e30="}]`))
	f.Add([]byte(`[{"rank":2,"collective":{"Seq":9,"Name":"all\nreduce"}},{"rank":3,"collective":{"Seq":5}}]`))
	f.Add([]byte(`{"SilentMS":9223372036854775807}`))
	f.Add([]byte(`["{\"own\":0.5,\"whole\":1}","{\"own\":0.01,\"whole\":1}"]`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		w := watchOf(t, answers(answer))
		w.allSilent(t.Context())
		if s := w.slow(t.Context()); s != nil && (s.Rank < 0 || s.Rank > 3 || s.String() == "") {
			t.Fatalf("%+v", s)
		}
		found := w.examine(t.Context())
		if found == nil || found.Rank < 0 || found.Rank > 3 ||
			!strings.Contains(found.Bundle, "evidence of all ranks") {
			t.Fatalf("%+v", found)
		}
		if strings.Contains(found.Message, "\n") || len(found.Message) > 1<<10 || len(found.Detail) > 8<<10 {
			t.Errorf("a message of %d bytes with a detail of %d: %.200q",
				len(found.Message), len(found.Detail), found.Message)
		}
	})
}

// FuzzAsk sends any request to a node whose workers are silent. None is a fault of the node.
func FuzzAsk(f *testing.F) {
	f.Add(false, LookPath, "generation=7&room=-1")
	f.Add(true, LookPath, "generation=18446744073709551616")
	f.Add(false, SilencePath, "generation=7")
	f.Fuzz(func(t *testing.T, post bool, path, query string) {
		w := watchOf(t, nil)
		w.silence.total = time.Hour
		mux := http.NewServeMux()
		for pattern, h := range Handlers(func() *Watch { return w }) {
			mux.Handle(pattern, h)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if post {
			r.Method = http.MethodPost
		}
		r.URL = &url.URL{Path: path, RawQuery: query}
		out := httptest.NewRecorder()
		mux.ServeHTTP(out, r)
		if out.Code == http.StatusInternalServerError {
			t.Errorf("%s?%s: %s", path, query, out.Body)
		}
	})
}

// FuzzKernel reads any bytes as what the kernel tells of connections, of a worker's scheduling and
// of its state.
func FuzzKernel(f *testing.F) {
	f.Add([]byte{16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(append([]byte{92, 0, 0, 0, 20, 0}, make([]byte, 86)...))
	f.Add([]byte("12 34 56"))
	f.Add([]byte("7 (a) b) S 1"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		readDiag(raw, map[uint32]int64{})
		parseSchedstat(string(raw))
		if s := stateOf(string(raw)); s != 0 && !bytes.Contains(raw, []byte{')'}) {
			t.Errorf("state %q of %q", s, raw)
		}
	})
}
