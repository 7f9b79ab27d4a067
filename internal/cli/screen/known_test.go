package screen_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/problem"
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
		if e := screen.KnownProblem(err); e.Code != c.code || !strings.Contains(e.Fix, c.fix) {
			t.Errorf("%v: [%s], fix %q, want [%s], %q", err, e.Code, e.Fix, c.code, c.fix)
		}
	}
}

// A program that does not exist was looked for in PATH, at a path, or, as a script, here.
func TestWhereAProgramWasLookedFor(t *testing.T) {
	for name, why := range map[string]string{
		"trian": "PATH has no program of that name", "train.py": "there is no file of that name here",
		"./train.py": "there is no file at that path",
	} {
		if e := screen.KnownProblem(&launch.NotFoundError{Name: name}); e.Why != why {
			t.Errorf("%s: %q, want %q", name, e.Why, why)
		}
	}
}
