package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// The requests between nodes.
//
//	PUT /checkpoint/manifests/<hash>?g=7   the manifest; 200 with the missing hashes, 204 held,
//	                                       503 send it again
//	GET /checkpoint/manifests/<hash>
//	PUT /checkpoint/chunks/<hash>?g=7      204 on disk and verified; &draft=3: of the save with that
//	                                       sequence, whose manifest comes later
//	GET /checkpoint/chunks/<hash>          Range is served
const (
	// Prefix is the URL path of the Handler.
	Prefix       = "/checkpoint/"
	manifestsURL = Prefix + "manifests/"
	chunksURL    = Prefix + "chunks/"
)

// offerLimit is how long an offer waits while chunks that are already here are verified.
const offerLimit = 5 * time.Second

// refusals are the errors that are sent to the other node, each with its own status.
var refusals = []struct {
	err    error
	status int
}{
	{chunkstore.ErrFenced, http.StatusGone},
	{chunkstore.ErrNotHeld, http.StatusNotFound},
	{dirfs.ErrNoSpace, http.StatusInsufficientStorage},
	{dirfs.ErrQuarantined, http.StatusLocked},
	{chunkstore.ErrDamaged, http.StatusUnprocessableEntity},
	{manifest.ErrBadManifest, http.StatusBadRequest},
	{ErrStranger, http.StatusMisdirectedRequest},
	{errBusy, http.StatusServiceUnavailable},
}

// Handler serves a store to the peers of the job. The listener has already checked the identity of
// the peer, and that the request is for this node. slow is called when the disk took longer than
// writeLimit for a chunk.
func Handler(s *chunkstore.Store, slow func(time.Duration)) http.Handler {
	h := &handler{s, slow}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT "+manifestsURL+"{hash}", h.offer)
	mux.HandleFunc("GET "+manifestsURL+"{hash}", h.manifest)
	mux.HandleFunc("PUT "+chunksURL+"{hash}", h.put)
	mux.HandleFunc("GET "+chunksURL+"{hash}", h.get)
	return mux
}

type handler struct {
	s    *chunkstore.Store
	slow func(time.Duration)
}

func (h *handler) offer(w http.ResponseWriter, r *http.Request) {
	hash, g, err := target(r)
	if err != nil {
		refuse(w, err)
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, manifest.MaxSize))
	if err != nil {
		refuse(w, err)
		return
	}
	if manifest.Sum(raw) != hash {
		refuse(w, fmt.Errorf("manifest %v: %w", hash, chunkstore.ErrDamaged))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), offerLimit)
	defer cancel()
	if parts := r.URL.Query()["part"]; parts != nil {
		h.holdParts(ctx, w, chunkstore.Partial{Generation: g, Manifest: raw}, parts)
		return
	}
	missing, err := h.s.Offer(ctx, g, raw)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		refuse(w, errBusy)
	case err != nil:
		refuse(w, err)
	case missing == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(manifest.Chunks(missing)) // the other node notices an incomplete response
	}
}

// holdParts serves HTTP.HoldParts.
func (h *handler) holdParts(
	ctx context.Context, w http.ResponseWriter, x chunkstore.Partial, parts []string,
) {
	for _, p := range parts {
		var part manifest.Hash
		if err := part.UnmarshalText([]byte(p)); err != nil {
			refuse(w, fmt.Errorf("%w: %w", manifest.ErrBadManifest, err))
			return
		}
		x.Parts = append(x.Parts, part)
	}
	if err := h.s.HoldParts(ctx, x); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *handler) manifest(w http.ResponseWriter, r *http.Request) {
	hash, _, err := target(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if !h.s.HasManifest(hash) {
		refuse(w, chunkstore.ErrNotHeld)
		return
	}
	raw, err := h.s.RawManifest(hash)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.Write(raw)
}

func (h *handler) put(w http.ResponseWriter, r *http.Request) {
	hash, g, err := target(r)
	if err == nil {
		began, body := time.Now(), &timed{ReadCloser: r.Body}
		r.Body = body
		err = h.write(r, g, hash)
		if took := time.Since(began) - body.took; took > writeLimit {
			h.slow(took)
		}
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// timed counts the time in which bytes come from the network.
type timed struct {
	io.ReadCloser
	took time.Duration
}

func (r *timed) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := r.ReadCloser.Read(p)
	r.took += time.Since(began)
	return n, err
}

func (h *handler) write(r *http.Request, g schema.Generation, chunk manifest.Hash) error {
	draft := r.URL.Query().Get("draft")
	if draft == "" {
		return h.s.WriteChunk(g, chunk, r.Body)
	}
	sequence, err := strconv.ParseUint(draft, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: draft: %w", manifest.ErrBadManifest, err)
	}
	at := manifest.Position{Generation: g, Sequence: sequence}
	return h.s.WriteDraft(at, chunk, r.ContentLength, r.Body)
}

func (h *handler) get(w http.ResponseWriter, r *http.Request) {
	hash, _, err := target(r)
	if err != nil {
		refuse(w, err)
		return
	}
	f, err := h.s.OpenChunk(hash)
	if err != nil {
		refuse(w, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Etag", strconv.Quote(hash.String()))
	http.ServeContent(w, r, "", time.Time{}, f)
}

// target returns the hash in the path of a request and, of a PUT, the generation of the sender.
func target(r *http.Request) (h manifest.Hash, g schema.Generation, err error) {
	if err := h.UnmarshalText([]byte(r.PathValue("hash"))); err != nil {
		return h, 0, fmt.Errorf("%w: %w", manifest.ErrBadManifest, err)
	}
	if r.Method == http.MethodPut {
		n, err := strconv.ParseUint(r.URL.Query().Get("g"), 10, 64)
		if err != nil {
			return h, 0, fmt.Errorf("%w: generation: %w", manifest.ErrBadManifest, err)
		}
		g = schema.Generation(n)
	}
	return h, g, nil
}

// refuse answers a request with the status of err.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			status = r.status
			break
		}
	}
	http.Error(w, err.Error(), status)
}
