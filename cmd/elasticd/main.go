// Elasticd is the coordination daemon: an embedded etcd member with maintenance, health and
// metrics. One is enough for a lab, three are for production. "elastic" also starts it as the local
// server, with flags that the help does not list.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/coordinator"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/phrase"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == local.DetachFlag {
		return status(local.Detach(args[1:]), stderr)
	}
	unix.Umask(0o077) // only its user may access its files and sockets
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	closed := make(chan struct{})
	defer close(closed)
	context.AfterFunc(ctx, func() {
		if !within(closeLimit, closed) {
			fmt.Fprintf(stderr, "elasticd: it did not close within %s, and ends\n", closeLimit)
			os.Exit(1)
		}
	})
	return status(app(stdout, stderr).RunContext(ctx, append([]string{"elasticd"}, normalize(args)...)), stderr)
}

// closeLimit is how long elasticd may take to stop. etcd would wait for ever for a listener that once had
// no descriptor left. What was acknowledged is on the disk.
const closeLimit = 20 * time.Second

// within reports whether a channel is closed within d.
func within(d time.Duration, closed <-chan struct{}) bool {
	select {
	case <-closed:
		return true
	case <-time.After(d):
		return false
	}
}

// status prints err and returns the exit status.
func status(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	code, rc := "E-FAILED", 1
	for kind, c := range map[error]string{
		coordinator.ErrUsage:       "E-USAGE",
		coordinator.ErrDataDir:     "E-DATA-DIR",
		coordinator.ErrInUse:       "E-DATA-DIR",
		coordinator.ErrOtherMember: "E-DATA-DIR",
		coordinator.ErrListen:      "E-LISTEN",
	} {
		if errors.Is(err, kind) {
			code = c
		}
	}
	if code == "E-USAGE" {
		rc = 2
	}
	fmt.Fprintf(stderr, "error: %s [%s]\n", phrase.Brief(strings.ReplaceAll(err.Error(), "\n", " ")), code)
	var p *coordinator.Problem
	if errors.As(err, &p) {
		if p.Why != "" {
			fmt.Fprintf(stderr, "  why: %s\n", phrase.Brief(p.Why))
		}
		if p.Fix != "" {
			fmt.Fprintf(stderr, "  fix: %s\n", phrase.Brief(p.Fix))
		}
	}
	return rc
}
