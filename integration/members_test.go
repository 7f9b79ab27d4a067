package integration

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Three elasticd and ten nodes. The servers fail, one after the other and all at
// once. No worker restarts, and there is no new generation.
func TestThreeServersOfTenNodes(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	all := p.daemons(3)
	p.undisturbed("elasticd", 10, func(agents []*proc) {
		p.pauseLeader(all, endure(t, 6*time.Second, time.Minute))

		follower := all[(p.leads(all)+1)%3]
		follower.end()
		time.Sleep(endure(t, 4*time.Second, 20*time.Second))
		follower.start()
		p.says(follower.x, "elasticd: ready: ")

		back := make([]int, len(agents)) // how often each agent has reported it
		for i, a := range agents {
			back[i] = strings.Count(a.stderr(), "the server answers again")
		}
		for _, d := range all {
			d.end()
		}
		time.Sleep(endure(t, 4*time.Second, 2*time.Minute))
		for _, d := range all {
			d.start()
		}
		for i, a := range agents {
			until(t, a.String()+" has the servers back", func() error {
				if strings.Count(a.stderr(), "the server answers again") == back[i] {
					return fmt.Errorf("it said last: %s", lastLine(a.stderr()))
				}
				return nil
			})
		}
		// Then the servers lose their data directories, and keep their addresses.
	})
}

// pauseLeader stops the leader for d. Meanwhile another one is elected.
func (p *sandbox) pauseLeader(all []*daemon, d time.Duration) {
	p.t.Helper()
	leader := all[p.leads(all)]
	leader.signal(syscall.SIGSTOP)
	time.Sleep(d)
	p.leads(slices.DeleteFunc(slices.Clone(all), func(o *daemon) bool { return o == leader }))
	leader.signal(syscall.SIGCONT)
}
