package txn

import (
	"context"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// longestList is the size above which lists of endpoints are left out: a process's environment is
// bounded.
const longestList = 48_000

// putEndpoints writes host:port of each port that the nodes found for their workers, in the order
// of the nodes, with the phase: one way to the store, not two. It is part of that proposal, so that
// a reader of another one never sees it. A line for each: see members.
func (r Requests) putEndpoints(s *rendezvous.Snapshot) []store.Write {
	var list []string
	size := 0
	for rank, m := range s.World.Members {
		rd := s.Ready[m.Node]
		for k := range portsOf(s, rank) {
			if 2+k >= len(rd.Ports) {
				return nil
			}
			e := fmt.Sprintf("%s:%d", rd.Host, rd.Ports[2+k])
			size += len(e) + 1
			list = append(list, e)
		}
	}
	if size > longestList {
		return nil
	}
	return []store.Write{store.Put(r.Job.Endpoints(s.World.Proposal), []byte(strings.Join(list, "\n")))}
}

// portsOf is how many ports the workers of a member need.
func portsOf(s *rendezvous.Snapshot, rank int) int {
	if s.Job.Roles == nil {
		return s.World.Slots
	}
	return s.Job.Ports(s.World.Count, rank)
}

// Endpoints reads what putEndpoints wrote; none if the list was too long.
func (r Requests) Endpoints(ctx context.Context, w *rendezvous.World) ([]string, error) {
	res, err := r.Store.Get(ctx, r.Job.Endpoints(w.Proposal), "")
	if err != nil || res.One() == nil {
		return nil, err
	}
	return rendezvous.ParseEndpoints(res.One()), nil
}
