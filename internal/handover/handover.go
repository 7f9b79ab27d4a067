// Package handover connects an agent to workers that can stay, by a unix socket that only the
// agent's user can open.
//
// A worker declares that it can stay. When the world changes, the agent asks it to leave its
// generation. The worker answers when its process group is closed and no save of it is being
// written. Then it gets the variables of the next world. A worker that never connects is ended and
// started again. The package also has the store in which the workers of one generation find each
// other.
//
// The step that a worker reports decides only whether a checkpoint is fetched. The workers agree by
// themselves which state is the newest.
//
// All messages are lines of JSON. The first line of a connection states its purpose.
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

// Version is the version of the messages. A worker with another version is refused. It is then
// ended and started again at each change.
const Version = 1

// SocketName is the name of the socket in its directory.
const SocketName = "agent.sock"

// longestLine is the longest line that is read: a value of the store in JSON.
const longestLine = 2 << 20

// mostConns is how many connections a server keeps. A worker that does not close its connections
// must not use up the descriptors of the agent.
const mostConns = 4096

// sayLimit is how long a write to a worker may take. The worker reads in a thread of its own.
const sayLimit = time.Second

// opening is the first line of a connection.
type opening struct {
	Version    int     `json:"version"`
	Generation uint64  `json:"generation"`
	LocalRank  *int    `json:"local_rank"` // of the worker
	Store      *string `json:"store"`      // set: the connection is for requests to the store
}

// workerMessage is a message of a worker.
type workerMessage struct {
	CanStay  *bool     `json:"can_stay"`
	Left     *left     `json:"left"`
	Received *Received `json:"received"`
}

// Received is how much of another rank's state a worker has received, in bytes.
type Received struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// left is the message that a worker takes part in no more collectives of a generation.
type left struct {
	Generation uint64 `json:"generation"`
	Step       *int64 `json:"step"` // the optimizer step of its state; nil: it has no state
}

// message is a message to a worker. Exactly one field is set.
type message struct {
	Leave   uint64            `json:"leave,omitempty"`
	World   map[string]string `json:"world,omitempty"` // the variables of the next generation
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

// Listen opens the socket in dir, and makes dir private. It replaces the socket of an earlier
// agent. The caller holds the lock of the node.
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

// listen opens the socket through a descriptor of its directory, because the path may be longer
// than a socket address can be.
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
	l.SetUnlinkOnClose(false) // the descriptor in the address is closed before
	return l, nil
}

// Path returns the path of the socket.
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

// Expect makes the group of so many workers that start in a generation. Workers of earlier groups
// are ignored from now on.
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
		if err != nil { // no descriptor is free; others may be closed soon
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

// openingLimit is how long the first line of a connection may take.
const openingLimit = 5 * time.Second

// serve handles one connection until it ends.
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
		sendLine(c, message{Refused: fmt.Sprintf("the helper speaks version %d, this agent version %d",
			o.Version, Version)})
		return
	}
	s.mu.Lock()
	g := s.group
	s.mu.Unlock()
	switch {
	case g == nil:
		sendLine(c, message{Refused: "no worker is expected"})
	case o.Store != nil:
		g.serveStore(c, in, s.storage)
	case o.LocalRank != nil:
		g.serveWorker(c, in, o)
	}
}

// sendLine writes one message.
func sendLine(c net.Conn, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.SetWriteDeadline(time.Now().Add(sayLimit))
	_, err = c.Write(append(line, '\n'))
	return err
}
