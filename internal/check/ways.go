package check

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// Ways lists the nodes that do not reach each other.
type Ways struct {
	Unreached []string // nodes that do not answer this one
	Cut       []string // Unreached nodes that another node reaches
	Blind     []string // nodes that answer, but cannot reach this node's agent
	Closed    []string // nodes that answer, but cannot reach a port of this node
	Asked     int
}

// askTries is how often a silent node is asked. wayTries is how often a connection to this node is
// tried: more often, because a failure is this node's own, and an overloaded machine may answer
// late.
const (
	askTries = 3
	wayTries = 6
	pause    = 500 * time.Millisecond
)

// Ways tries the connections between this node and the others. port is an address of this node on
// which a listener of the job answers; "": there is none.
func (n *Nodes) Ways(ctx context.Context, port string) Ways {
	w := Ways{}
	var mu sync.Mutex
	var all sync.WaitGroup
	note := func(list *[]string, name string) {
		mu.Lock()
		defer mu.Unlock()
		*list = append(*list, name)
	}
	others := n.others()
	w.Asked = len(others)
	for _, r := range others {
		all.Go(func() {
			if !retry(ctx, askTries, func() bool { return n.Link.Probe(ctx, r).Kind == membership.Same }) {
				note(&w.Unreached, r.Node)
				if n.reachedByOther(ctx, others, r) {
					note(&w.Cut, r.Node)
				}
				return
			}
			if me := n.self(); me != nil && !n.reaches(ctx, r, me.Address) {
				note(&w.Blind, r.Node)
			}
			if port != "" && !n.reaches(ctx, r, port) {
				note(&w.Closed, r.Node)
			}
		})
	}
	all.Wait()
	for _, list := range [][]string{w.Unreached, w.Cut, w.Blind, w.Closed} {
		slices.Sort(list)
	}
	return w
}

// reaches reports whether another node reaches an address of this one. If that node does not
// answer, the result is true.
func (n *Nodes) reaches(ctx context.Context, by membership.Ref, address string) bool {
	return retry(ctx, wayTries, func() bool {
		kind, err := n.Link.Reach(ctx, by, address)
		return err != nil || kind == membership.Same
	})
}

// reachedByOther reports whether a third node reaches about.
func (n *Nodes) reachedByOther(ctx context.Context, others []membership.Ref, about membership.Ref) bool {
	for _, by := range others {
		if by.Node == about.Node {
			continue
		}
		if kind, err := n.Link.Reach(ctx, by, about.Address); err == nil && kind == membership.Same {
			return true
		}
	}
	return false
}

// retry calls try up to tries times, until it succeeds.
func retry(ctx context.Context, tries int, try func() bool) bool {
	for i := range tries {
		if i > 0 {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(pause):
			}
		}
		if try() {
			return true
		}
	}
	return false
}
