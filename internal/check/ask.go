package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// Link connects to the listeners of a job's nodes.
type Link interface {
	To(membership.Ref) http.RoundTripper
	// Probe dials a node. Reach asks a node to dial an address of this one.
	Probe(ctx context.Context, to membership.Ref) membership.Answer
	Reach(ctx context.Context, by membership.Ref, address string) (membership.AnswerKind, error)
}

// Nodes are the nodes of a job, for a check on one of them or elsewhere.
type Nodes struct {
	Link  Link
	Ring  []membership.Ref // in the order of their ranks
	Self  string           // the name of this node; "": it is none of them
	Round string           // the same for all nodes that check before the same start

	absent []string // nodes that did not answer, and are not asked again
}

// askLimit is how long a node may take for a simple answer.
const askLimit = 3 * time.Second

// neighbours is how many nodes on each side of this one have their transfers measured. The checks
// of all nodes together cover a large job.
const neighbours = 8

// others returns the nodes to check, without this one.
func (n *Nodes) others() (refs []membership.Ref) {
	for _, i := range n.near() {
		if r := n.Ring[i]; r.Node != n.Self {
			refs = append(refs, r)
		}
	}
	return refs
}

// mostErr is how many bytes of another node's error are shown.
const mostErr = 300

// near returns the positions in the ring around this node; in a small job, all of them.
func (n *Nodes) near() (places []int) {
	at := 0
	for i, r := range n.Ring {
		if r.Node == n.Self {
			at = i
		}
	}
	size := len(n.Ring)
	if size <= 2*neighbours+1 {
		for i := range size {
			places = append(places, i)
		}
		return places
	}
	for d := -neighbours; d <= neighbours; d++ {
		places = append(places, (at+d+size)%size)
	}
	return places
}

// self returns this node; nil: it is none of the nodes.
func (n *Nodes) self() *membership.Ref {
	for i := range n.Ring {
		if n.Ring[i].Node == n.Self {
			return &n.Ring[i]
		}
	}
	return nil
}

// Transfer lets each node near this one fetch bytes from the node before it, all at the same time
// as in an all-reduce. It returns the rates.
func (n *Nodes) Transfer(ctx context.Context, limit time.Duration) []Edge {
	if len(n.Ring) < 2 {
		return nil
	}
	var edges []Edge
	for _, i := range n.near() {
		before := n.Ring[(i+len(n.Ring)-1)%len(n.Ring)]
		edges = append(edges, Edge{From: before.Node, To: n.Ring[i].Node})
	}
	var all sync.WaitGroup
	for k, i := range n.near() {
		if away := slices.IndexFunc(n.absent, func(name string) bool {
			return name == edges[k].From || name == edges[k].To
		}); away >= 0 {
			edges[k].Err = n.absent[away] + " does not answer"
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, limit+2*askLimit)
			defer cancel()
			from := n.Ring[(i+len(n.Ring)-1)%len(n.Ring)]
			p, err := n.pull(ctx, n.Ring[i], pull{Round: n.Round, From: from, MS: limit.Milliseconds()})
			if err != nil {
				p.Err = err.Error()
			}
			edges[k].Rate, edges[k].Err = p.Rate, p.Err[:min(len(p.Err), mostErr)]
		})
	}
	all.Wait()
	return edges
}

func (n *Nodes) pull(ctx context.Context, by membership.Ref, q pull) (p Pulled, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return p, err
	}
	return p, n.ask(ctx, by, question{http.MethodPost, PullPath, body}, &p)
}

// question is a request to a node.
type question struct {
	method, path string
	body         []byte
}

// ask sends a request to a node and reads its answer.
func (n *Nodes) ask(ctx context.Context, node membership.Ref, q question, into any) error {
	r, err := http.NewRequestWithContext(ctx, q.method, "https://node"+q.path, bytes.NewReader(q.body))
	if err != nil {
		return err
	}
	res, err := n.Link.To(node).RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("node %s answers %s", node.Node, res.Status)
	}
	return json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(into)
}

// Clocks returns how far the clock of each node is ahead of this process. It leaves out nodes that
// do not answer.
func (n *Nodes) Clocks(ctx context.Context) map[string]time.Duration {
	offsets := map[string]time.Duration{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, r := range n.others() {
		if slices.Contains(n.absent, r.Node) {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askLimit)
			defer cancel()
			var m moment
			sent := time.Now()
			if n.ask(ctx, r, question{method: http.MethodGet, path: NowPath}, &m) != nil {
				return
			}
			middle := sent.Add(time.Since(sent) / 2)
			mu.Lock()
			defer mu.Unlock()
			offsets[r.Node] = time.Unix(0, m.UnixNano).Sub(middle)
		})
	}
	all.Wait()
	return offsets
}
