// Package local finds and starts the local server: one detached elasticd per user and machine, with
// the life cycle of tmux's server. A command finds it by dialling a unix socket in a directory that
// only this user can enter. The first command that needs the server starts it under a lock. It is a
// child of init, and ends when it was idle for a while.
//
// The socket shows whether a server runs. The data directory also names the socket: with two
// runtime directories and one state directory, both lead to the one server on that data. With one
// runtime directory and two state directories, the first command chooses the data, and the other
// joins it.
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

	"github.com/elasticd/elastic/internal/certs"
	"github.com/elasticd/elastic/internal/problem"
)

// ErrNone says that no local server runs.
var ErrNone = errors.New("no local server")

// Runtime names the directories of the local server of this user.
type Runtime struct {
	Dir  string // of the socket, the start lock and the hint
	Data string // of the server's data and log
	Idle time.Duration
	// Listen is an IP:PORT at which the server also serves other machines; "": it serves only this
	// user, on its socket.
	Listen string
	Access        // who is served there
	Bin    string // the elasticd to start; "": the one beside this program, else in PATH
}

// Access says whom a server serves at a TCP address: who knows the token, or everybody.
type Access struct {
	Token certs.Token `json:"-"`
	Open  bool
}

// Endpoint is the address of a server for etcd's client.
type Endpoint string

// Socket returns the path of the server's socket.
func (r Runtime) Socket() string { return filepath.Join(r.Dir, "etcd.sock") }

func (r Runtime) endpoint() Endpoint { return Endpoint("unix://" + r.Socket()) }

// HasData reports whether there is data of earlier jobs. A command that only reads starts the
// server only in this case.
func (r Runtime) HasData() bool {
	_, err := os.Stat(filepath.Join(r.Data, "member"))
	return err == nil
}

// Find returns the running server. It returns ErrNone if there is none.
func Find(ctx context.Context, r Runtime) (Endpoint, error) {
	if err := private(r.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, socket := range []string{r.Socket(), r.socketOfData()} {
		if socket == "" {
			continue
		}
		if alive, err := dial(ctx, socket); err != nil {
			return "", err
		} else if alive {
			return Endpoint("unix://" + socket), r.checkToken(socket)
		}
	}
	return "", ErrNone
}

// socketOfData returns the socket that the data directory names. It is "" if another user could have made
// it, or if the server on that socket has other data.
func (r Runtime) socketOfData() string {
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

// dial reports whether a server listens, even if it is too busy to answer.
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

// checkToken fails if the server of a socket serves other machines by another token. Nodes there
// could not find this one.
func (r Runtime) checkToken(socket string) error {
	if r.Token == "" {
		return nil
	}
	h, err := hint(filepath.Dir(socket))
	if err != nil {
		return nil // it starts or ends
	}
	if name, err := r.Token.Name(); err == nil && name == h.Token {
		return nil
	}
	return problem.New(problem.ServerAuth, "the server at %s has another token (pid %d)", r.Listen, h.PID).
		Because("an earlier command started it, and nodes elsewhere would be refused").
		Cure("its token; or kill %d, when none of its jobs runs: the next run starts it again", h.PID)
}
