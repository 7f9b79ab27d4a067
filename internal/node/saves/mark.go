package saves

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Mark is the file with which a node says in a checkpoint directory that it has that directory:
// other nodes may have it too, on this machine or over NFS. Then rank 0's node alone captures from
// it and puts back into it. Each node writes its mark before it joins, so that a node that prepares
// for a world finds the marks of all of its members: same name, and the address that the world
// lists, which is that of one life of one agent.
type Mark struct {
	Dir     string        // given with --checkpoint-dir; "": the node has a directory of its own
	Node    string        // the name of this node
	Address func() string // of the agent's listener, now
	Notice  func(string)

	written string   // the address that the mark has
	lock    *os.File // see lockFor; nil: none is held
}

// Take takes the directory for a job, if the user gave one: *refusal.DirTaken.
func (m *Mark) Take(job schema.Job) (err error) {
	if m.Dir != "" && m.lock == nil {
		m.lock, err = lockFor(m.Dir, job)
	}
	return err
}

const markPrefix = ".elastic-node-"

// Write puts the mark of this node into the directory, if the user gave one.
func (m *Mark) Write() error {
	if m.Dir == "" {
		return nil
	}
	address := m.Address()
	if m.written == address {
		return nil
	}
	path := filepath.Join(m.Dir, markPrefix+m.Node)
	if err := disk.Publish(path+".tmp", path, []byte(address+"\n")); err != nil {
		return fmt.Errorf("mark the checkpoint directory: %w", err)
	}
	m.written = address
	return nil
}

// Remove gives the directory back, and removes the mark, unless another agent of this name has
// written its own since.
func (m *Mark) Remove() {
	if m.lock != nil {
		unlock(m.lock)
		m.lock = nil
	}
	if me := (membership.Ref{Node: m.Node, Address: m.written}); m.Dir != "" && m.Of(me) {
		// A mark that is left behind belongs to no node: no life has its address again.
		_ = os.Remove(filepath.Join(m.Dir, markPrefix+m.Node))
	}
}

// Of reports whether the checkpoint directory of this node is that of the other one too.
func (m *Mark) Of(other membership.Ref) bool {
	b, err := os.ReadFile(filepath.Join(m.Dir, markPrefix+other.Node))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.Notice("the checkpoint directory cannot be read: " + err.Error())
	}
	return err == nil && other.Address != "" && strings.TrimSpace(string(b)) == other.Address
}
