package cli_test

import (
	"bufio"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// secured starts an elasticd with the certificates of the script; $ELASTIC_SERVER leads to it.
func (s *stage) secured(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	at := "https://" + l.Addr().String()
	l.Close()
	cmd := exec.CommandContext(s.t.Context(), ts.MkAbs("bin/elasticd"), "--name=a", "--data-dir=data",
		"--http=", "--listen-client-urls="+at, "--cert-file=certs/server.crt", "--key-file=certs/server.key",
		"--trusted-ca-file=certs/ca.crt")
	cmd.Dir = ts.MkAbs(".")
	said, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for lines := bufio.NewScanner(said); ; {
		if !lines.Scan() {
			ts.Fatalf("elasticd did not come up")
		}
		if strings.Contains(lines.Text(), "ready: clients") {
			break
		}
	}
	ts.Setenv("ELASTIC_SERVER", at)
}

// record writes a key of a job as another program than Elastic would.
func (s *stage) record(ts *testscript.TestScript, _ bool, args []string) {
	_, err := s.client.Put(s.t.Context(), schema.Root+args[0], strings.Join(args[1:], " "))
	ts.Check(err)
}

// lockRoles makes the users of docs/SECURITY.md for one job, and turns authentication on.
func (s *stage) lockRoles(ts *testscript.TestScript, job schema.Job) {
	ctx, c := s.t.Context(), s.client
	read, write, both := clientv3.PermissionType(clientv3.PermRead),
		clientv3.PermissionType(clientv3.PermWrite), clientv3.PermissionType(clientv3.PermReadWrite)
	below := func(role, prefix string, may clientv3.PermissionType) {
		_, err := c.RoleGrantPermission(ctx, role, prefix, store.End(prefix), may)
		ts.Check(err)
	}
	for _, user := range []string{"root", "trainer", "reader", "operator"} {
		_, err := c.UserAdd(ctx, user, "secret")
		ts.Check(err)
		if user != "root" {
			_, err = c.RoleAdd(ctx, user)
			ts.Check(err)
			_, err = c.RoleGrantPermission(ctx, user, schema.Elasticd, "", read)
			ts.Check(err)
			if user != "reader" {
				_, err = c.RoleGrantPermission(ctx, user, job.Resume(), "", both)
				ts.Check(err)
				below(user, "/elastic/removed/"+string(job)+"/", both)
			}
		}
		_, err = c.UserGrantRole(ctx, user, user)
		ts.Check(err)
	}
	below("trainer", job.Prefix(), both)
	below("trainer", job.Secrets(), both)
	below("reader", job.Prefix(), read)
	below("operator", job.Prefix(), both)
	below("operator", job.Secrets(), write)
	_, err := c.AuthEnable(ctx)
	ts.Check(err)
	s.client, err = clientv3.New(clientv3.Config{Endpoints: s.server.Endpoints(), Username: "root",
		Password: "secret", DialTimeout: 10 * time.Second})
	ts.Check(err)
	ts.Defer(func() { s.client.Close() })
}

// denied holds that etcd does not let a user read a key, nor what lies below it.
func (s *stage) denied(ts *testscript.TestScript, _ bool, args []string) {
	c, err := clientv3.New(clientv3.Config{Endpoints: s.server.Endpoints(), Username: args[0],
		Password: "secret", DialTimeout: 10 * time.Second})
	ts.Check(err)
	defer c.Close()
	for _, o := range [][]clientv3.OpOption{nil, {clientv3.WithPrefix()}} {
		if r, err := c.Get(s.t.Context(), args[1], o...); err == nil {
			ts.Fatalf("%s reads %s: %v", args[0], args[1], r.Kvs)
		}
	}
}
