// Package local finds, starts and keeps the local server: one detached
// elasticd per user and machine, with the life cycle of tmux's server. It is
// found by dialling a unix socket in a directory that only this user can
// enter, started under a lock by the first command that needs it, a child of
// init, and it ends by itself when it was not used for a while.
//
// The socket is the truth about what runs, and the data directory names its
// socket: with two runtime directories and one state directory, both lead to
// the one server on that data; with one runtime directory and two state
// directories, the first command brings the data, and the other one joins.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var (
	// ErrNone says that no local server runs.
	ErrNone = errors.New("no local server")
	// ErrOwner says that the runtime directory is another user's, or open to others.
	ErrOwner = errors.New("runtime directory is not private")
	// ErrState says that the state directory cannot be used.
	ErrState = errors.New("state directory cannot be used")
	// ErrStart says that the server did not come up.
	ErrStart = errors.New("local server did not come up")
)

// Problem is an error for the user: what, why, what to do.
type Problem struct {
	Kind           error // one of the sentinels above
	Text, Why, Fix string
	Log            []string // the server's last lines, for ErrStart
}

func (p *Problem) Error() string { return p.Text }
func (p *Problem) Unwrap() error { return p.Kind }

// Runtime says where the local server of this user lives.
type Runtime struct {
	Dir  string // of the socket, the start lock and the hint
	Data string // of the server's data and log
	Idle time.Duration
	// Listen is a HOST:PORT at which the server is there for other machines, too; "": for this user
	// only.
	Listen string
	Bin    string // the elasticd to start; "": beside this program, else in PATH
}

// Endpoint is the address of a server, as etcd's client takes it.
type Endpoint string

// Socket is the path of the server's socket.
func (r Runtime) Socket() string { return filepath.Join(r.Dir, "etcd.sock") }

func (r Runtime) endpoint() Endpoint { return Endpoint("unix://" + r.Socket()) }

// HasData reports whether there is data of earlier jobs, for which a server
// that only answers questions is worth starting.
func (r Runtime) HasData() bool {
	_, err := os.Stat(filepath.Join(r.Data, "member"))
	return err == nil
}

// Find returns the server that runs. Errors: ErrNone, ErrOwner.
func Find(ctx context.Context, r Runtime) (Endpoint, error) {
	if err := private(r.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, socket := range []string{r.Socket(), r.named()} {
		if socket == "" {
			continue
		}
		if alive, err := dial(ctx, socket); err != nil {
			return "", err
		} else if alive {
			return Endpoint("unix://" + socket), nil
		}
	}
	return "", ErrNone
}

// named is the socket of the server on this data, "" if there is none that
// this user alone could have made.
func (r Runtime) named() string {
	b, err := os.ReadFile(filepath.Join(r.Data, socketFile))
	socket := strings.TrimSpace(string(b))
	if err != nil || !filepath.IsAbs(socket) || private(filepath.Dir(socket)) != nil {
		return ""
	}
	if h, err := hint(filepath.Dir(socket)); err != nil || h.Data != r.Data {
		return ""
	}
	return socket
}

// dial reports whether a server listens. One that is too busy to answer does.
func dial(ctx context.Context, socket string) (bool, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	switch {
	case err == nil:
		c.Close()
		return true, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("find the local server: %w", ctx.Err())
	case errors.Is(err, syscall.EAGAIN):
		return true, nil
	}
	return false, nil
}
