package problem_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// What is wrong with a certificate, a password or a file of TLS has a fix of its own: another user
// does not mend a name, another address does not mend a file.
func TestFixesOfTLS(t *testing.T) {
	for _, c := range []struct {
		is   error
		code problem.Code
		fix  string
	}{
		{etcd.ErrCertName, problem.ServerAuth, "with a name of the certificate"},
		{etcd.ErrCertTrust, problem.ServerAuth, "--cacert=FILE"},
		{etcd.ErrCertTime, problem.ServerAuth, "renew it"},
		{etcd.ErrCertExpired, problem.ServerAuth, "renew it"},
		{etcd.ErrCertRefused, problem.ServerAuth, "--cert and --key"},
		{etcd.ErrPlain, problem.Usage, "--server=https://"},
		{etcd.ErrTLSFiles, problem.Usage, "files as elastic certs makes them"},
		{etcd.ErrAuth, problem.ServerAuth, "--user=NAME"},
	} {
		err := fmt.Errorf("lab1:2379: %w", c.is)
		if e := problem.Known(err); e.Code != c.code || !strings.Contains(e.Fix, c.fix) {
			t.Errorf("%v: [%s], fix %q, want [%s], %q", err, e.Code, e.Fix, c.code, c.fix)
		}
	}
}
