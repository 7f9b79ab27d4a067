package checkpoint

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/parts"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// ReportParts replaces this node's report that was written at revision seen; 0: there is none. A
// request that arrives late has no effect, because the fence or the revision has changed. It
// returns the revision of the report in the store. Errors: ErrFenced; store.ErrMoved if another
// request of this node was applied.
func (r *Record) ReportParts(ctx context.Context, report parts.Report, seen int64) (int64, error) {
	g := report.Generation
	key := r.Job.PartsOf(g, report.Node.Node)
	rev, err := store.Send(ctx, r.Store, store.Request{
		If:   []store.Guard{schema.FenceIs(r.Job, r.uid(), g), store.Unchanged(key, seen)},
		Then: []store.Write{store.Put(key, schema.Encode(report))},
	})
	if err == nil || !store.Moved(err) {
		return rev, err
	}
	newest, ferr := r.fence(ctx)
	if ferr != nil {
		return seen, ferr
	}
	if newest > g {
		return seen, fmt.Errorf("generation %d, newest is %d: %w", g, newest, chunkstore.ErrFenced)
	}
	read, gerr := r.Store.Get(ctx, key, "")
	if gerr != nil {
		return seen, gerr
	}
	if e := read.One(); e != nil {
		return e.Rev, err
	}
	return 0, err
}

// ReadParts reads the reports of a generation. It skips reports that cannot be decoded. It fails
// with ErrFenced if there is a newer generation.
func (r *Record) ReadParts(ctx context.Context, g schema.Generation) ([]parts.Report, error) {
	newest, err := r.fence(ctx)
	if err != nil {
		return nil, err
	}
	if newest > g {
		return nil, fmt.Errorf("generation %d, newest is %d: %w", g, newest, chunkstore.ErrFenced)
	}
	read, err := r.Store.Get(ctx, r.Job.Parts(g), store.End(r.Job.Parts(g)))
	if err != nil {
		return nil, fmt.Errorf("read parts: %w", err)
	}
	var all []parts.Report
	for i := range read.Entries {
		e := &read.Entries[i]
		rest := schema.Rest(r.Job.Parts(g), e.Key)
		if p, err := schema.Decode[parts.Report](e); err == nil && len(rest) == 1 && rest[0] == p.Node.Node {
			all = append(all, p)
		}
	}
	return all, nil
}
