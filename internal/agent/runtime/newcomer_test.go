package runtime

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// The store is set back under living members, and a new node reaches it up to three seconds before
// they do. The job goes on from what the members know: the new node takes no step so soon after its
// registration. It finds that the earlier incarnations of the members do not answer.
func TestSetBackAndANewNodeIsFirst(t *testing.T) {
	for since, more := range map[string]func(*wiped, memory.Backup){
		"the job was made again": func(s *wiped, old memory.Backup) {
			s.commit()
			time.Sleep(time.Second) // the agents have seen it
			s.setBack(old, true)
			s.until("it was made again", 30*time.Second, func(x rendezvous.Snapshot) bool {
				return x.Fence > 1 && s.running(0, 2)(x)
			})
		},
		"the agents were started again": func(s *wiped, _ memory.Backup) {
			for _, node := range []string{"a", "b"} {
				was := s.snapshot()
				s.agent(was.Node(node).Ref).kill()
				s.start(node)
				s.until("the new one is a member", 30*time.Second, func(x rendezvous.Snapshot) bool {
					return x.Fence > was.Fence && s.running(0, 2)(x)
				})
			}
		},
	} {
		for _, later := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second} {
			t.Run(fmt.Sprintf("%s, %v later", since, later), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { newNodeIsFirst(t, later, more) })
			})
		}
	}
}

func newNodeIsFirst(t *testing.T, later time.Duration, more func(*wiped, memory.Backup)) {
	s, _ := withCheckpoint(t, "1:2", "a", "b")
	old := s.etcd.Backup()
	more(s, old)
	s.commit()
	time.Sleep(10 * time.Second) // suspicions are taken back
	was := s.snapshot()
	cut := func(yes bool) {
		for _, m := range was.World.Members {
			s.agent(m).client.Cut(yes)
		}
	}
	cut(true)
	s.setBack(old, true)
	older := s.snapshot()
	s.start("c")
	time.Sleep(later)
	cut(false)
	s.until("the next World", time.Minute,
		func(x rendezvous.Snapshot) bool { return x.World != nil && x.Fence > older.Fence })
	if x := s.snapshot(); x.Job.UID == older.Job.UID || x.Head.Manifest != was.Head.Manifest {
		t.Errorf("generation %d goes on from checkpoint %d of the older state", x.Fence, x.Head.Number)
	}
	s.until("it runs again", time.Minute, s.running(0, 2))
	s.end()
}
