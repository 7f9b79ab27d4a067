package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// knownPath is where an agent tells other agents what it knows of the job.
const knownPath = "/known"

// mostKnown bounds the bytes of an answer.
const mostKnown = 4 << 20

// Serve answers other agents what this one knows: what the machine told last, and what is on the disk.
func (p *Peers) Serve(disk func(schema.Generation) plan.Knowledge) {
	p.Server.Handle(knownPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		k := p.knows
		p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(plan.MergeKnowledge(k, disk(k.Generation))) // else the other one asks again
	}))
}

// Knows implements joining.RecoveryPeers.
func (p *Peers) Knows(ctx context.Context, of membership.Ref) (k plan.Knowledge, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+of.Address+knownPath, nil)
	if err != nil {
		return k, err
	}
	res, err := p.To(of).RoundTrip(r)
	if err != nil {
		return k, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return k, fmt.Errorf("ask %s what it knows: %s", of.Node, res.Status)
	}
	return k, json.NewDecoder(io.LimitReader(res.Body, mostKnown)).Decode(&k)
}
