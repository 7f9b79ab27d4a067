package logs

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// answering is a node that answers every request with the same bytes.
type answering struct{ body io.Reader }

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(a.body)}, nil
}

// FuzzAnswer reads any answer of another node, and FuzzQuery answers any query of one.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{}{"line":{"rank":1,"text":"x"}}{"end":true}`))
	f.Add([]byte(`{"error":"no"}`))
	f.Add([]byte(`{"line":{"generation":-1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		lines := 0
		_ = Fetch(t.Context(), answering{bytes.NewReader(body)}, Query{},
			func(Line) error { lines++; return nil })
		if lines > len(body) {
			t.Errorf("%d lines of %d bytes", lines, len(body))
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add(`{"generation":1,"ranks":[0]}`)
	f.Add(`{"tail":-1}`)
	f.Add("null")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, q string) {
		if strings.Contains(strings.ToLower(q), "follow") {
			return // it waits for lines
		}
		w := httptest.NewRecorder()
		Handler(dir).ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+"?q="+url.QueryEscape(q), nil))
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Errorf("%q is answered with %d", q, w.Code)
		}
	})
}

// forever is a message that has no end.
type forever struct{ n int }

func (f *forever) Read(p []byte) (int, error) {
	if f.n += len(p); f.n > 256<<20 {
		return 0, fmt.Errorf("%d bytes were read", f.n)
	}
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

// A node whose message has no end is given up, before it has taken the memory of the one that asks.
func TestMessageWithoutEnd(t *testing.T) {
	body := &forever{}
	in := io.MultiReader(strings.NewReader(`{"end":false}{"error":"`), body)
	err := Fetch(t.Context(), answering{in}, Query{}, func(Line) error { return nil })
	if err == nil || body.n > 2*longestMessage {
		t.Errorf("after %d bytes: %v", body.n, err)
	}
}
