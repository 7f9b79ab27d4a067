package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/elasticd/elastic/pkg/schema"
)

// clusterLimit is how long a member has to say of which cluster it is.
const clusterLimit = time.Second

// OneCluster fails with ErrTwoClusters if endpoints that answer now are of different clusters. A
// client would read the jobs of one, and after a failure those of the other.
func (s *Store) OneCluster(ctx context.Context) error {
	clusters := make([]uint64, len(s.endpoints))
	var asks sync.WaitGroup
	for at := range s.endpoints {
		ask := func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) error {
			r, err := pb.NewKVClient(c).Range(ctx,
				&pb.RangeRequest{Key: []byte(schema.Root), CountOnly: true, Serializable: true}, o...)
			if err == nil {
				clusters[at] = r.Header.ClusterId
			}
			return err
		}
		asks.Go(func() { _, _ = s.try(ctx, at, clusterLimit, ask) }) // one that does not answer is not known
	}
	asks.Wait()
	first := -1
	for at, cluster := range clusters {
		switch {
		case cluster == 0:
		case first < 0:
			first = at
		case cluster != clusters[first]:
			return fmt.Errorf("%w: %s and %s", ErrTwoClusters, s.endpoints[first], s.endpoints[at])
		}
	}
	return nil
}
