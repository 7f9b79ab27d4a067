package ensemble

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/elasticd/elastic/pkg/roles"
)

// serversLimit is how long the servers of all nodes may take to listen.
const serversLimit = 2 * time.Minute

// serversListen waits until every server of the job accepts connections.
func (e *Ensemble) serversListen() error {
	ctx, cancel := context.WithTimeout(e.over, serversLimit)
	defer cancel()
	tell := time.NewTicker(10 * time.Second)
	defer tell.Stop()
	for _, at := range e.c.Team.All(roles.Server) {
		for !listens(ctx, at) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("server %s did not listen within %s", at, serversLimit)
			case <-tell.C:
				e.c.Notice(fmt.Sprintf("the trainers wait for server %s to listen", at))
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

func listens(ctx context.Context, at string) bool {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
