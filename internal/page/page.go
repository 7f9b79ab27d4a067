// Package page serves the page of jobs: read-only, made of files in this package, live by
// server-sent events. elasticd serves it beside its metrics, the local server on its socket, and
// `elastic page` for any server.
package page

import (
	"context"
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"github.com/elasticd/elastic/pkg/store"
)

// Source is the part of a store that the page reads.
type Source interface {
	Get(ctx context.Context, key, end string) (store.Read, error)
	Watch(ctx context.Context, key, end string, from int64) <-chan store.Change
}

// Health is the state of the server, for the head of the page.
type Health struct {
	Kind    string   `json:"kind"` // local, elasticd, etcd
	Name    string   `json:"name"` // its address or name
	Members []Member `json:"members"`
	// Warnings are sentences about what needs attention: a certificate that expires, a full store.
	Warnings []string `json:"warnings"`
}

// Member is one member of the server.
type Member struct {
	Name   string `json:"name"`
	Leader bool   `json:"leader"`
	Down   bool   `json:"down"` // it does not answer
}

// Config is what a page shows.
type Config struct {
	Source Source
	Health func(context.Context) Health
	Lines  Lines // nil: lines of workers are not shown
}

// Page is a running page. It reads the store only while somebody looks.
type Page struct {
	hub   *hub
	lines Lines
	mux   *http.ServeMux
}

// New returns a page. Close must be called at its end.
func New(c Config) *Page {
	p := &Page{hub: newHub(c.Source, c.Health), lines: c.Lines, mux: http.NewServeMux()}
	p.mux.HandleFunc("GET /{$}", p.file("index.html"))
	for _, name := range names() {
		p.mux.HandleFunc("GET /"+name, p.file(name))
	}
	p.mux.HandleFunc("GET /stream", p.stream)
	p.mux.HandleFunc("GET /lines", p.serveLines)
	return p
}

// Close ends the reads and all streams, and waits for them.
func (p *Page) Close() { p.hub.close() }

// policy forbids everything that is not a file of this page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP serves the files, the stream and the lines. All addresses in it are relative, so it can
// be below any prefix that ends in "/".
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	p.mux.ServeHTTP(w, r)
}

//go:embed assets
var assets embed.FS

// names lists the files of the page.
func names() (all []string) {
	entries, err := fs.ReadDir(assets, "assets")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// file serves one file. Browsers ask again each time, because the next elastic has other files.
func (p *Page) file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		b, err := assets.ReadFile(path.Join("assets", name))
		if err != nil {
			http.Error(w, "not there", http.StatusNotFound)
			return
		}
		kind := mime.TypeByExtension(path.Ext(name))
		if path.Ext(name) == ".js" {
			kind = "text/javascript; charset=utf-8"
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-cache")
		w.Write(b)
	}
}
