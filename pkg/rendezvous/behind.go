package rendezvous

import (
	"cmp"
	"fmt"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/schema"
)

// Memory is what a node knows of its job. An agent compares the store with it, and the disk of the node
// keeps it for the next agent.
type Memory struct {
	Job        Job               `json:"job"`
	Generation schema.Generation `json:"generation"` // the largest that the node saw
	Known      checkpoint.Head   `json:"known"`      // the newest commit that it heard of
	Done       bool              `json:"done,omitempty"`
	Server     string            `json:"-"` // of the job, as it was given; for people
}

// Has says what a machine has of the job.
func (m *Memory) Has() string {
	h := m.Known
	return fmt.Sprintf("checkpoint %d (%s, of %s, server %s)", h.Number, DescribeHead(&h),
		h.Time.UTC().Format("2006-01-02 15:04"), cmp.Or(m.Server, "not known"))
}

// Ahead reports whether the store is behind: it shows less than the node of m has seen. s must come
// from a linearizable read that began after the node learned what m says. A store is behind if it has
// no job of that name, an older generation or commit, another commit of the same number, or the job as
// it was before it was made again. It is not behind if it has another job of that name.
func (m *Memory) Ahead(s *Snapshot) bool {
	switch {
	case s.Job == nil:
		return true
	case !s.Job.Same(&m.Job):
		return false
	case s.Job.UID != m.Job.UID:
		return s.Job.Remade <= m.Job.Remade
	}
	return s.Fence < m.Generation || s.Head.Number < m.Known.Number ||
		s.Head.Number == m.Known.Number && s.Head.Manifest != m.Known.Manifest
}

// Yields reports whether the job that s shows gives way to another job of that name, whose newest
// commit is known: it never began, or only the other one has a commit. Otherwise the job that the
// store has stays.
func (s *Snapshot) Yields(known checkpoint.Head) bool {
	return s.Job == nil || s.Fence == 0 || s.Head.Number == 0 && known.Number > 0
}
