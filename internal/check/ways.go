package check

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// Ways is which nodes reach each other.
type Ways struct {
	Unreached []string // nodes that do not answer this one
	Cut       []string // of these, nodes that another node reaches: the way from here is closed
	Blind     []string // nodes that answer, and cannot reach this one's agent
	Closed    []string // nodes that answer, and cannot reach a port of this node as workers use
	Asked     int
}

// How often a node is asked before it counts as away, and a way to this node is tried before it
// counts as closed: that is this node's own fault, and a machine that is overloaded may be slow to
// answer.
const (
	askTries = 3
	wayTries = 6
	pause    = 500 * time.Millisecond
)

// Ways tries the ways between this node and the others; port is an address of this node on which a
// listener of the job answers, "": none does.
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
			if !again(ctx, askTries, func() bool { return n.Link.Probe(ctx, r).Kind == membership.Same }) {
				note(&w.Unreached, r.Node)
				if n.witness(ctx, others, r) {
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

// reaches reports whether a node reaches an address of this one. A node that does not say so in
// time says nothing against this one.
func (n *Nodes) reaches(ctx context.Context, by membership.Ref, address string) bool {
	return again(ctx, wayTries, func() bool {
		kind, err := n.Link.Reach(ctx, by, address)
		return err != nil || kind == membership.Same
	})
}

// witness reports whether a node reaches about, which this one does not.
func (n *Nodes) witness(ctx context.Context, others []membership.Ref, about membership.Ref) bool {
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

// again tries until it succeeds, a few times.
func again(ctx context.Context, tries int, try func() bool) bool {
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
