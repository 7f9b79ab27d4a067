package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Peers reads and writes the stores of other nodes. Its errors are those of the other Store,
// ErrStranger and ErrNoAnswer.
type Peers interface {
	Manifest(ctx context.Context, from membership.Ref, h manifest.Hash) ([]byte, error)
	// Chunk reads a chunk into dst, which has its size. The caller must verify it.
	Chunk(ctx context.Context, from membership.Ref, h manifest.Hash, dst []byte) error
	// Offer sends a manifest, and returns the chunks that the other node needs; nil: it holds the
	// checkpoint.
	Offer(ctx context.Context, to membership.Ref, g schema.Generation, raw []byte) ([]manifest.Hash, error)
	WriteChunk(ctx context.Context, to membership.Ref, c chunkstore.Upload) error
	// HoldParts lets a node keep the manifest of a checkpoint, and the parts that it has.
	HoldParts(ctx context.Context, to membership.Ref, p chunkstore.Partial) error
}

const (
	// answerLimit is the time limit of a request with its retries. No network is that slow.
	answerLimit = 30 * time.Second
	// writeLimit is the time limit for the answer after all bytes were sent. Another node's disk that takes
	// longer stands still.
	writeLimit = 10 * time.Second
)

// ErrStranger means that another node now has the address.
var ErrStranger = errors.New("another node answered")

// ErrNoAnswer means that a node did not answer, so it is unknown what it has.
var ErrNoAnswer = errors.New("no answer")

// errBusy means that the other node needs more time to verify an offer.
var errBusy = errors.New("still verifying")

// HTTP implements Peers with the agents' listeners.
type HTTP struct {
	// To returns the transport to one incarnation of a node. Both ends prove their identity. It
	// answers 421 if another incarnation has the address.
	To func(membership.Ref) http.RoundTripper
}

// client retries requests without an answer, in case the outage is short. It does not retry after
// an answer, because the other store has decided.
func (p *HTTP) client(to membership.Ref) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     p.To(to),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryWaitMin: 50 * time.Millisecond,
		RetryWaitMax: time.Second,
		RetryMax:     3,
		Backoff:      retryablehttp.DefaultBackoff,
		CheckRetry: func(ctx context.Context, _ *http.Response, err error) (bool, error) {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			return err != nil, nil
		},
	}
}

// request is a request to another node.
type request struct {
	method, path string
	query        url.Values
	body         any
	size         int64 // of the body
}

// get returns a request that reads path.
func get(path string) request { return request{method: http.MethodGet, path: path} }

// put returns a request that sends a body as generation g.
func put(path string, g schema.Generation, body any, size int64) request {
	query := url.Values{"g": {strconv.FormatUint(uint64(g), 10)}}
	return request{http.MethodPut, path, query, body, size}
}

// do sends a request. It returns the response, or the error of its status.
func (p *HTTP) do(ctx context.Context, to membership.Ref, r request) (*http.Response, error) {
	// To turns it into https
	u := url.URL{Scheme: "http", Host: to.Address, Path: r.path, RawQuery: r.query.Encode()}
	req, err := retryablehttp.NewRequestWithContext(ctx, r.method, u.String(), r.body)
	if err != nil {
		return nil, err
	}
	if r.size > 0 {
		req.ContentLength = r.size
	}
	resp, err := p.client(to).Do(req)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w: %w", to.Node, ErrNoAnswer, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // an error is ignored: the status is enough
	for _, r := range refusals {
		if r.status == resp.StatusCode {
			return nil, fmt.Errorf("node %s: %w (%q)", to.Node, r.err, bytes.TrimSpace(said))
		}
	}
	return nil, fmt.Errorf("node %s: %s (%q)", to.Node, resp.Status, bytes.TrimSpace(said))
}

func (p *HTTP) Manifest(ctx context.Context, from membership.Ref, h manifest.Hash) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	resp, err := p.do(ctx, from, get(manifestsURL+h.String()))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, manifest.MaxSize+1))
	switch {
	case err != nil:
		err = fmt.Errorf("manifest from node %s: %w: %w", from.Node, ErrNoAnswer, err)
	case manifest.Sum(raw) != h:
		err = fmt.Errorf("manifest %v from node %s: %w", h, from.Node, chunkstore.ErrDamaged)
	}
	return raw, err
}

func (p *HTTP) Chunk(ctx context.Context, from membership.Ref, h manifest.Hash, dst []byte) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	resp, err := p.do(ctx, from, get(chunksURL+h.String()))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, dst); err != nil {
		return fmt.Errorf("chunk from node %s: %w: %w", from.Node, ErrNoAnswer, err)
	}
	return nil
}

func (p *HTTP) Offer(
	ctx context.Context, to membership.Ref, g schema.Generation, raw []byte,
) ([]manifest.Hash, error) {
	r := put(manifestsURL+manifest.Sum(raw).String(), g, raw, int64(len(raw)))
	missing, err := p.offer(ctx, to, r)
	for errors.Is(err, errBusy) {
		missing, err = p.offer(ctx, to, r)
	}
	return missing, err
}

func (p *HTTP) offer(ctx context.Context, to membership.Ref, r request) ([]manifest.Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	resp, err := p.do(ctx, to, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	var missing manifest.Chunks
	if err := json.NewDecoder(io.LimitReader(resp.Body, manifest.MaxSize)).Decode(&missing); err != nil {
		return nil, fmt.Errorf("node %s: read what is missing: %w", to.Node, err)
	}
	if len(missing) == 0 {
		return nil, fmt.Errorf("node %s: misses nothing and holds nothing", to.Node)
	}
	return missing, nil
}

func (p *HTTP) WriteChunk(ctx context.Context, to membership.Ref, c chunkstore.Upload) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	written := time.AfterFunc(answerLimit, cancel) // it runs from the last byte on; each try begins it anew
	defer written.Stop()
	body := retryablehttp.ReaderFunc(func() (io.Reader, error) {
		written.Reset(answerLimit)
		f, err := c.Open()
		if err != nil {
			return nil, err
		}
		return atEnd{f, func() { written.Reset(writeLimit) }}, nil
	})
	r := put(chunksURL+c.Hash.String(), c.Generation, body, c.Size)
	if c.Draft > 0 {
		r.query.Set("draft", strconv.FormatUint(c.Draft, 10))
	}
	resp, err := p.do(ctx, to, r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// HoldParts sends the manifest, and the parts as a query. An older version ignores the query, takes
// the request for an offer and asks for chunks. That counts as a refusal.
func (p *HTTP) HoldParts(ctx context.Context, to membership.Ref, x chunkstore.Partial) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	r := put(manifestsURL+manifest.Sum(x.Manifest).String(), x.Generation, x.Manifest, int64(len(x.Manifest)))
	for _, h := range x.Parts {
		r.query.Add("part", h.String())
	}
	resp, err := p.do(ctx, to, r)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		err = fmt.Errorf("node %s: it knows no parts of checkpoints", to.Node)
	}
	return errors.Join(err, resp.Body.Close())
}

// atEnd calls ended when all was read.
type atEnd struct {
	io.ReadCloser
	ended func()
}

func (r atEnd) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		r.ended()
	}
	return n, err
}
