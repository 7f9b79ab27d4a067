package transfer

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// FuzzHandler sends any request to the store of a node: every path, query and body. None is a fault
// of the node (500), and what it holds stays.
func FuzzHandler(f *testing.F) {
	farm := newFarm(f, "a")
	h := Handler(farm.stores["a"], func(time.Duration) {})
	for _, body := range []string{"", "{}", `{"format":1}`, "\x00"} {
		f.Add(true, manifestsURL+"00", "g=1", []byte(body))
		f.Add(true, chunksURL+"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
			"g=18446744073709551615", []byte(body))
		f.Add(false, manifestsURL+"../../x", "g=-1", []byte(body))
	}
	f.Fuzz(func(t *testing.T, put bool, path, query string, body []byte) {
		r := httptest.NewRequest(http.MethodGet, "/", bytes.NewReader(body))
		if put {
			r.Method = http.MethodPut
		}
		r.URL = &url.URL{Path: path, RawQuery: query}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s %q?%q: %s", r.Method, path, query, w.Body)
		}
	})
}
