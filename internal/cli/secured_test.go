package cli_test

import (
	"bufio"
	"net"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/elasticd/elastic/pkg/schema"
)

// secured starts an elasticd with the certificates of the script; $ELASTIC_SERVER leads to it.
func (s *stage) secured(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	at := "https://" + l.Addr().String()
	l.Close()
	cmd := exec.CommandContext(s.t.Context(), ts.MkAbs("bin/elasticd"), "--name=a", "--data-dir=data", "--http=",
		"--listen-client-urls="+at, "--cert-file=certs/server.crt", "--key-file=certs/server.key", "--trusted-ca-file=certs/ca.crt")
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

// record writes a key of a job as somebody else than Elastic would.
func (s *stage) record(ts *testscript.TestScript, _ bool, args []string) {
	_, err := s.client.Put(s.t.Context(), schema.Root+args[0], strings.Join(args[1:], " "))
	ts.Check(err)
}
