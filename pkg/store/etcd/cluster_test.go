package etcd_test

import (
	"errors"
	"testing"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// The members of one cluster are dialled as one server, also while some do not answer; servers that
// have nothing to do with each other are not.
func TestOneCluster(t *testing.T) {
	t.Parallel()
	a, b := etcdtest.Start(t, etcdtest.TCP()).Endpoint(), etcdtest.Start(t, etcdtest.TCP()).Endpoint()
	for name, c := range map[string]struct {
		endpoints []string
		want      error
	}{
		"one server":                {[]string{a}, nil},
		"one server by two names":   {[]string{a, a}, nil},
		"a member does not answer":  {[]string{refusing(t), a, silent(t)}, nil},
		"two servers":               {[]string{a, b}, etcd.ErrTwoClusters},
		"two, and one that is away": {[]string{refusing(t), b, a}, etcd.ErrTwoClusters},
	} {
		t.Run(name, func(t *testing.T) {
			err := open(t, etcd.Config{Endpoints: c.endpoints}).OneCluster(t.Context())
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
