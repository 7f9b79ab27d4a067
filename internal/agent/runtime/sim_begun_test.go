package runtime

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// begunAnew describes the known job if it was made from scratch and never ran: the job before it,
// and the commits of that job.
type begunAnew struct {
	before *rendezvous.Job // nil: the known job ran, or was not made from scratch
	head   checkpoint.Head
}

// replacedBy reports whether j is the job before, made again: from that job, or from the one before it
// by nodes that had not heard of that job.
func (b begunAnew) replacedBy(j *rendezvous.Job) bool {
	return b.before != nil && (j.Follows(b.before.UID) || j.Twin(b.before))
}

// newcomer is a machine that was never in the job.
const newcomer = "n"

// beginsAnew ends all agents with the store. Then a machine comes first that knows nothing. It
// makes the job from scratch, and waits for more nodes. The others come a moment later.
func (s *faulty) beginsAnew(*simAgent, time.Duration) {
	if s.job.Limits.Min == 1 || slices.Contains(s.names, newcomer) {
		return // it would train
	}
	s.killNodes()
	s.lose("wiped", s.etcd.Wipe)
	s.old = s.etcd.Backup()
	s.mu.Lock()
	s.names = append(slices.Clone(s.names), newcomer)
	s.mu.Unlock()
	s.up(newcomer)
	made := func() bool { x := s.snapshot(); return x.Job != nil && x.Node(newcomer) != nil }
	for end := time.Now().Add(time.Minute); !made() && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	s.note("%s begins the job anew", newcomer)
	for _, name := range s.names[:1+s.r.IntN(len(s.names)-1)] {
		s.up(name)
		time.Sleep(time.Duration(s.r.IntN(5000)) * time.Millisecond)
	}
}

// ranAnew records that a job that was made from scratch runs. mu is held.
func (s *faulty) ranAnew(snap *rendezvous.Snapshot) {
	if s.begun.before == nil || snap.Job.UID != s.known.UID || snap.Fence == 0 {
		return
	}
	if s.head = s.begun.head; s.head.Number > 0 && s.reachable() {
		s.wrongf("the job began from scratch while nodes were here that have checkpoints of it")
	}
	s.head, s.begun = checkpoint.Head{}, begunAnew{}
}
