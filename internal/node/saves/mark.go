package saves

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Mark is a file in a checkpoint directory that the user gave. It has the address of a node that
// uses the directory. If several nodes use it, on one machine or over NFS, only rank 0's node
// captures from it and restores checkpoints in it. Each node writes its mark before it joins. A
// node that prepares for a world therefore finds the marks of all members. A mark counts only with
// the address that the world lists, because each incarnation of an agent has an address of its own.
type Mark struct {
	Dir     string        // given with --checkpoint-dir; "": the user gave none, and no mark is written
	Node    string        // the name of this node
	Address func() string // returns the address of the agent's listener now
	Notice  func(string)

	written string   // the address in the mark
	lock    *os.File // see lockFor; nil: none is held
}

// Take locks the directory for a job, if the user gave one. See lockFor.
func (m *Mark) Take(job schema.Job) (err error) {
	if m.Dir != "" && m.lock == nil {
		m.lock, err = lockFor(m.Dir, job)
	}
	return err
}

const markPrefix = ".elastic-node-"

// Write writes the mark of this node, if the user gave a directory.
func (m *Mark) Write() error {
	if m.Dir == "" {
		return nil
	}
	address := m.Address()
	if m.written == address {
		return nil
	}
	path := filepath.Join(m.Dir, markPrefix+m.Node)
	if err := regular.Replace(path, []byte(address+"\n")); err != nil {
		return fmt.Errorf("mark the checkpoint directory: %w", err)
	}
	m.written = address
	return nil
}

// Remove unlocks the directory. It removes the mark, unless a later agent of this node has written
// its own.
func (m *Mark) Remove() {
	if m.lock != nil {
		unlock(m.lock)
		m.lock = nil
	}
	if me := (membership.Ref{Node: m.Node, Address: m.written}); m.Dir != "" && m.Of(me) {
		// If the mark stays, it does no harm: no later incarnation has this address.
		_ = os.Remove(filepath.Join(m.Dir, markPrefix+m.Node))
	}
}

// Of reports whether the other node uses the checkpoint directory of this node.
func (m *Mark) Of(other membership.Ref) bool {
	b, err := regular.Read(filepath.Join(m.Dir, markPrefix+other.Node), regular.Small)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.Notice("the checkpoint directory cannot be read: " + err.Error())
	}
	return err == nil && other.Address != "" && strings.TrimSpace(string(b)) == other.Address
}
