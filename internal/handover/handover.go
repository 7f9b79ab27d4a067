// Package handover is how an agent speaks with workers that can stay: on a unix socket that only
// its user can open.
//
// A worker says that it can stay. When its world changes it is asked to leave its generation,
// answers when it has, and is handed the World of the next one. A worker that never connects is
// ended and started again, as ever. The package also holds the store in which the workers of one
// generation find each other.
//
// Everything is a line of JSON. The first line of a connection says what it is for.
package handover

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Version is that of the lines. A worker with another one is refused, and is ended and started
// again as ever.
const Version = 1

// SocketName is the name of the socket in its directory.
const SocketName = "agent.sock"

// longestLine is the largest line that is read: a value of the store and its JSON.
const longestLine = 2 << 20

// mostConns is how many connections a server keeps: a worker that forgets to close its own takes no
// descriptor that the agent needs.
const mostConns = 4096

// sayLimit is how long a worker may take to take a line. It reads in a thread of its own.
const sayLimit = time.Second

// opening is the first line of a connection.
type opening struct {
	Version    int     `json:"version"`
	Generation uint64  `json:"generation"`
	LocalRank  *int    `json:"local_rank"` // of the worker that speaks
	Store      *string `json:"store"`      // the connection carries requests to the store
}

// said is a line of a worker.
type said struct {
	CanStay  *bool     `json:"can_stay"`
	Left     *left     `json:"left"`
	Received *Received `json:"received"`
}

// Received is how much of the state of another rank a worker has got, in bytes.
type Received struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// left says that a worker takes part in no collective of a generation any more.
type left struct {
	Generation uint64 `json:"generation"`
	Step       *int64 `json:"step"` // that its state has come to; nil: it has no state
}

// message is a line that the agent sends to a worker. One field is set.
type message struct {
	Leave   uint64            `json:"leave,omitempty"`
	World   map[string]string `json:"world,omitempty"` // the environment of the generation
	Refused string            `json:"refused,omitempty"`
}

// Server is the socket of one agent.
type Server struct {
	dir      string
	listener *net.UnixListener
	storage  Storage
	conns    sync.WaitGroup

	mu     sync.Mutex // guards what follows
	open   map[net.Conn]bool
	group  *Group // the newest
	closed bool
}

// Listen makes the socket in dir, which is made private. What an earlier agent left there is
// replaced: the caller holds the lock of the node.
func Listen(dir string, storage Storage) (*Server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the agent's socket: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the agent's socket private: %w", err)
	}
	path := filepath.Join(dir, SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket of the agent: %w", err)
	}
	l, err := listen(dir)
	if err != nil {
		return nil, fmt.Errorf("open the agent's socket: %w", err)
	}
	s := &Server{dir: dir, listener: l, storage: storage, open: map[net.Conn]bool{}}
	s.conns.Go(s.accept)
	return s, nil
}

// listen opens the socket by way of its directory's descriptor: its path may be longer than an
// address of a socket can be.
func listen(dir string) (*net.UnixListener, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	short := filepath.Join("/proc/self/fd", strconv.Itoa(fd), SocketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the descriptor of its path is closed by then
	return l, nil
}

// Path is that of the socket.
func (s *Server) Path() string { return filepath.Join(s.dir, SocketName) }

// Close ends all connections.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.listener.Close()
	s.conns.Wait()
	os.Remove(s.Path())
}

// Expect makes the group of so many workers that begin in a generation. Workers of earlier groups
// are heard no more.
func (s *Server) Expect(generation uint64, workers int) *Group {
	g := NewGroup(generation, workers)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group != nil {
		s.group.Close()
	}
	s.group = g
	return g
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor is left: others may be closed soon
			<-time.After(100 * time.Millisecond)
			continue
		}
		s.mu.Lock()
		taken := !s.closed && len(s.open) < mostConns
		if taken {
			s.open[c] = true
		}
		s.mu.Unlock()
		if !taken {
			c.Close()
			continue
		}
		s.conns.Go(func() {
			s.serve(c)
			c.Close()
			s.mu.Lock()
			delete(s.open, c)
			s.mu.Unlock()
		})
	}
}

// openingLimit is how long a connection may take to say what it is for.
const openingLimit = 5 * time.Second

// serve speaks on one connection until it ends.
func (s *Server) serve(c net.Conn) {
	in := bufio.NewScanner(c)
	in.Buffer(make([]byte, 0, 4096), longestLine)
	c.SetReadDeadline(time.Now().Add(openingLimit))
	var o opening
	if !in.Scan() || json.Unmarshal(in.Bytes(), &o) != nil {
		return
	}
	c.SetReadDeadline(time.Time{})
	if o.Version != Version {
		say(c, message{Refused: fmt.Sprintf("the helper speaks version %d, this agent version %d",
			o.Version, Version)})
		return
	}
	s.mu.Lock()
	g := s.group
	s.mu.Unlock()
	switch {
	case g == nil:
		say(c, message{Refused: "no worker is expected"})
	case o.Store != nil:
		g.serveStore(c, in, s.storage)
	case o.LocalRank != nil:
		g.serveWorker(c, in, o)
	}
}

// say writes one line.
func say(c net.Conn, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.SetWriteDeadline(time.Now().Add(sayLimit))
	_, err = c.Write(append(line, '\n'))
	return err
}
