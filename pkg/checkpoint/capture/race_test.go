package capture

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// busyDisk is a disk whose process works on while the agent looks: between the list of files and the
// notices.
type busyDisk struct {
	*playedDisk
	between func()
}

func (d *busyDisk) Notes(n int) []dirfs.Note {
	if work := d.between; work != nil {
		d.between = nil
		work()
	}
	return d.playedDisk.Notes(n)
}

// A look lists a file that was emptied for the next save. Before the look reads the notices, the file is
// complete. The save before, of which the look knows both files, is then not taken with the new file.
func TestFileThatIsWrittenDuringALook(t *testing.T) {
	now := time.Unix(1e9, 0)
	disk := &busyDisk{playedDisk: newPlayedDisk(&now)}
	c, err := watch(tree{Dir{}, disk}, stampOfLives, Workers{State: func() WorkerState { return Running },
		PIDs: func() []int { return []int{1} }}, nil)
	must(t, err)
	c.evidence.forWriting = disk.forWriting
	do := func(calls ...call) {
		for _, x := range calls {
			disk.tick()
			must(t, disk.call(x))
		}
	}
	write := func(name string) {
		do(call{Op: "create", Name: name}, call{Op: "write", Name: name, Data: []byte("\x00a save")},
			call{Op: "close", Name: name})
	}
	look := func(after time.Duration) *Picture {
		now = now.Add(after)
		p, _, err := c.Look(now)
		must(t, err)
		return p
	}
	take := func(what string) {
		t.Helper()
		p := look(100 * time.Millisecond)
		for range 30 {
			if p != nil {
				break
			}
			p = look(100 * time.Millisecond)
		}
		if p == nil || paths(p) != "a.raw b.raw" {
			t.Fatalf("%s: %v", what, p)
		}
		c.Taken(p)
	}
	write("a.raw")
	write("b.raw")
	take("the first save")
	now = now.Add(10 * time.Second)
	write("a.raw")
	write("b.raw")
	do(call{Op: "create", Name: "a.raw"}) // the next save
	disk.between = func() {
		do(call{Op: "write", Name: "a.raw", Data: []byte("\x00a save")}, call{Op: "close", Name: "a.raw"})
	}
	for range 20 {
		if p := look(60 * time.Millisecond); p != nil {
			t.Fatalf("%s is taken, with a.raw of the next save", paths(p))
		}
	}
	write("b.raw")
	take("the next save")
}
