package txn

import (
	"context"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// longestList is the largest size of a list of endpoints. A longer one is left out, because the
// size of a process's environment is limited.
const longestList = 48_000

// putEndpoints writes host:port for each port that the nodes chose for their workers, by node rank,
// one per line. It is part of the transaction of Run, which saves a second request. The key belongs
// to the proposal, so a reader of another proposal does not see it.
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

// portsOf is the number of ports that the workers of a member need.
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
