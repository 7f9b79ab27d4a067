package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/pkg/checkpoint/pipeline"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// A checkpoint directory may be one that other nodes have too: on this machine, or over NFS. Then
// rank 0's node alone captures from it and puts back into it. To be seen each node leaves its mark
// there before it joins, so that whoever prepares for a world finds the marks of all of its
// members: same name, and the address that the world lists, which is that of one life of one agent.
const markPrefix = ".elastic-node-"

// mark says in the directory that this node has it; only a directory that the user gave can be
// another's too.
func (w *workers) mark() error {
	if w.o.CheckpointDir == "" {
		return nil
	}
	address := w.address()
	if w.marked == address {
		return nil
	}
	path := filepath.Join(w.o.CheckpointDir, markPrefix+w.node)
	if err := disk.Publish(path+".tmp", path, []byte(address+"\n")); err != nil {
		return fmt.Errorf("mark the checkpoint directory: %w", err)
	}
	w.marked = address
	return nil
}

// unmark removes the mark, unless it is another's by now.
func (w *workers) unmark() {
	if me := (membership.Ref{Node: w.node, Address: w.marked}); w.o.CheckpointDir != "" && w.has(me) {
		// left behind it is nobody's: no life has its address again
		_ = os.Remove(filepath.Join(w.o.CheckpointDir, markPrefix+w.node))
	}
}

// has reports whether the checkpoint directory of this node is that one's too.
func (w *workers) has(r membership.Ref) bool {
	b, err := os.ReadFile(filepath.Join(w.o.CheckpointDir, markPrefix+r.Node))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.notice("the checkpoint directory cannot be read: " + err.Error())
	}
	return err == nil && r.Address != "" && strings.TrimSpace(string(b)) == r.Address
}

// shared reports whether rank 0's node, which is another one, has the checkpoint directory too. It
// is said once.
func (s *saves) shared(w rendezvous.World) bool {
	if s.w.o.CheckpointDir == "" {
		return false
	}
	zero := w.Members[0]
	if zero.Node != s.replicator.Self {
		if !s.w.has(zero) {
			return false
		}
		s.tellShared()
		return true
	}
	for _, m := range w.Members[1:] {
		if s.w.has(m) {
			s.tellShared()
			break
		}
	}
	return false
}

// with are the nodes that each save a part; nil where rank 0's node has all of each save. A node
// that has rank 0's directory has no part of its own.
func (s *saves) with(w rendezvous.World) *pipeline.Sharing {
	apart := func(r membership.Ref) bool { return s.w.o.CheckpointDir == "" || !s.w.has(r) }
	return pipeline.NewSharing(w.Members, s.replicator.Self, s.w.job.Load().Rules.SaveFrom, apart)
}

func (s *saves) tellShared() {
	s.mu.Lock()
	told := s.sharing
	s.sharing = true
	s.mu.Unlock()
	if !told {
		s.w.notice("the checkpoint directory is one that nodes share: rank 0's node alone captures from it and puts back into it")
	}
}
