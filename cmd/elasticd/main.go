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

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/problem"
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
	e, ok := errors.AsType[*problem.Error](err)
	if !ok {
		e = problem.New(problem.Failed, "%v", err)
	}
	e.Message = strings.ReplaceAll(e.Message, "\n", " ")
	for _, line := range e.Lines() {
		fmt.Fprintln(stderr, line)
	}
	return e.Status
}
