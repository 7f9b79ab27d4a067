package disk

import (
	"errors"
	"fmt"
	"testing"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// machine is a machine in memory whose node a has checkpoint 5 of a job u, of generation 3. All is synced.
func machine(t *testing.T) (*memfs.Host, checkpoint.Head) {
	t.Helper()
	m := memfs.NewHost("h", message.ErrLocked)
	d, p := restarted(t, m)
	if _, err := d.Adopt("a", rendezvous.Job{UID: "u"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := makeDir(p, d.dirOf("a")+"/"+StoreDir); err != nil {
		t.Fatal(err)
	}
	tree, err := p.Tree(d.dirOf("a") + "/" + StoreDir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := chunkstore.OpenFS(tree)
	if err != nil {
		t.Fatal(err)
	}
	save := memfs.New()
	memfs.WriteFile(t, save, "step-1/model.raw", []byte("weights"), 0o600)
	saved, hash := checkpointtest.Put(t, s, save, 3, 1)
	h := checkpoint.Head{Number: 5, Generation: 3, Manifest: hash, Bytes: saved.Bytes()}
	mem := rendezvous.Memory{Job: rendezvous.Job{UID: "u"}, Generation: 7}
	if err := errors.Join(s.AddCommitted(h), s.Close(), d.Remember("a", &mem)); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	return m, h
}

// restarted is the disk as a new agent of node a has it.
func restarted(t *testing.T, m *memfs.Host) (*Disk, *memfs.Process) {
	t.Helper()
	p := m.Process()
	d, err := Of(p, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock("a"); err != nil {
		t.Fatal(err)
	}
	return d, p
}

// losses are what a machine keeps of the names that were not synced when it loses power, or its agent dies.
var losses = map[string]func(*memfs.Host, *memfs.Process){
	"killed": func(_ *memfs.Host, p *memfs.Process) { p.Kill() },
	"no power, and the newest names": func(m *memfs.Host, _ *memfs.Process) {
		m.Crash(func() bool { return true })
	},
	"no power, and the synced names": func(m *memfs.Host, _ *memfs.Process) {
		m.Crash(func() bool { return false })
	},
}

// changing are the operations that change a disk. Where one of the others fails, the one before it did.
var changing = map[string]bool{"create": true, "write": true, "sync": true, "mkdir": true, "rename": true,
	"link": true, "remove": true, "syncdir": true}

// change is what an agent does to its disk.
type change func(*testing.T, *Disk, checkpoint.Head) error

// interrupted has what happen on machines in the state of machine, after before. The i-th operation fails,
// for each i, and the agent ends with it. After that check sees the disk as a later agent does.
func interrupted(t *testing.T, before, what change, check func(*testing.T, *Disk, checkpoint.Head)) {
	for name, lose := range losses {
		for i := 1; ; i++ {
			m, h := machine(t)
			d, p := restarted(t, m)
			if err := before(t, d, h); err != nil {
				t.Fatal(err)
			}
			n := 0
			m.Tree().Set(func(op, _ string) error {
				if changing[op] {
					n++
				}
				if n >= i {
					return errors.New("interrupted")
				}
				return nil
			}, 1<<40)
			err := what(t, d, h)
			m.Tree().Set(nil, 1<<40)
			lose(m, p)
			t.Run(fmt.Sprintf("%s at change %d", name, i), func(t *testing.T) {
				later, _ := restarted(t, m)
				check(t, later, h)
			})
			if err == nil && n < i {
				break
			}
		}
	}
}

// nothing is no change.
func nothing(*testing.T, *Disk, checkpoint.Head) error { return nil }

// moveAside is what an agent does that the user told to go on from the newest checkpoint of the nodes.
func moveAside(t *testing.T, d *Disk, _ checkpoint.Head) error {
	_, err := d.MoveAside(t.Context(), "a", rendezvous.Aside{Newest: true})
	return err
}

// Whatever interrupts the move of what a node has, a later agent can repeat it, and brings the checkpoint.
func TestMoveAsideIsInterrupted(t *testing.T) {
	for _, before := range []change{nothing, moveAside} { // also if the job that it is for never began
		interrupted(t, before, moveAside, func(t *testing.T, d *Disk, h checkpoint.Head) {
			b, err := d.MoveAside(t.Context(), "a", rendezvous.Aside{Newest: true})
			if err != nil || b == nil || b.Head.Manifest != h.Manifest || b.From != "u" {
				t.Errorf("it brings %+v, %v", b, err)
			}
			if g, err := d.LastGeneration("a"); g < 7 || err != nil {
				t.Errorf("generations go on above %d, %v", g, err)
			}
		})
	}
}

// Until what a node has is moved aside as a whole, a later agent is asked again: it remembers the job, and
// is refused by a server that has less.
func TestInterruptedMoveIsAskedAgain(t *testing.T) {
	interrupted(t, nothing, moveAside, func(t *testing.T, d *Disk, _ checkpoint.Head) {
		if m, err := d.Recall("a", "u"); m == nil || m.Generation != 7 || err != nil {
			t.Errorf("it remembers %+v, %v", m, err)
		}
	})
}

// A node comes back to a job that was made again. Whatever interrupts the move of its data, a later agent
// has the committed checkpoint in its store.
func TestAdoptIsInterrupted(t *testing.T) {
	adopt := func(_ *testing.T, d *Disk, h checkpoint.Head) error {
		_, err := d.Adopt("a", rendezvous.Job{UID: "v", FirstUID: "u", Remade: 1}, []checkpoint.Head{h})
		return err
	}
	interrupted(t, nothing, adopt, func(t *testing.T, d *Disk, h checkpoint.Head) {
		if err := adopt(t, d, h); err != nil {
			t.Fatal(err)
		}
		s, err := d.openStore(d.dirOf("a"))
		if err != nil {
			t.Fatal(err)
		}
		if _, bad, err := s.Verify(t.Context(), h.Manifest); len(bad) > 0 || err != nil {
			t.Errorf("checkpoint 5: %v, %v", bad, err)
		}
		if uid, err := d.uidOf(d.dirOf("a")); uid != "v" || err != nil {
			t.Errorf("the data is of job %q, %v", uid, err)
		}
	})
}

// A checkpoint that was brought for a job that never began is moved aside too, if the next one begins anew.
// Whatever interrupts that, a later agent can repeat it.
func TestAgainIsInterrupted(t *testing.T) {
	again := func(t *testing.T, d *Disk, _ checkpoint.Head) error {
		_, err := d.MoveAside(t.Context(), "a", rendezvous.Aside{})
		return err
	}
	interrupted(t, moveAside, again, func(t *testing.T, d *Disk, h checkpoint.Head) {
		if err := again(t, d, h); err != nil {
			t.Fatal(err)
		}
		if names, err := d.entries(d.dirOf("a")); len(names) > 0 || err != nil {
			t.Errorf("the next job has %q, %v", names, err)
		}
	})
}
