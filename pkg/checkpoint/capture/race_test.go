package capture

import (
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// busyDisk is a disk whose process works on while the agent looks: between the list of files and the
// notices.
type busyDisk struct {
	*playedDisk
	between func()
	skip    int    // after how many more reads of the notices
	listed  func() // what the process does after a directory is watched, and before it is listed
	at      string // that directory
}

func (d *busyDisk) ReadDir(at string) ([]fs.DirEntry, error) {
	list, err := d.playedDisk.ReadDir(at)
	if work := d.listed; work != nil && at == d.at {
		d.listed = nil
		work()
		return d.playedDisk.ReadDir(at)
	}
	return list, err
}

func (d *busyDisk) Notes(n int) []dirfs.Note {
	if work := d.between; work != nil {
		if d.skip--; d.skip < 0 {
			d.between = nil
			work()
		}
	}
	return d.playedDisk.Notes(n)
}

// race is a capture whose worker writes while the agent looks.
type race struct {
	t     *testing.T
	now   time.Time
	disk  *busyDisk
	c     *Watcher
	state WorkerState
}

func newRace(t *testing.T) *race {
	r := &race{t: t, now: time.Unix(1e9, 0)}
	r.disk = &busyDisk{playedDisk: newPlayedDisk(&r.now)}
	c, err := watch(tree{Dir{Names: []string{"a.raw", "b.raw"}}, r.disk}, stampOfLives, Workers{State: func() WorkerState {
		return r.state
	}}, nil)
	must(t, err)
	r.c = c
	return r
}

func (r *race) do(op, name string) {
	r.t.Helper()
	r.disk.tick()
	must(r.t, r.disk.call(call{Op: op, Name: name, Data: []byte("\x00a save")}))
}

// The calls that write a file.
var (
	written = []string{"create", "write", "close"}
	mapped  = []string{"open", "map", "close", "store", "unmap"} // of an existing file: only its end is noticed
)

// write writes files whole, one after the other.
func (r *race) write(names ...string) {
	r.t.Helper()
	r.save(written, names...)
}

// save makes the calls for one file after the other.
func (r *race) save(calls []string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		for _, op := range calls {
			r.do(op, name)
		}
	}
}

func (r *race) look() *Picture {
	r.t.Helper()
	r.now = r.now.Add(100 * time.Millisecond)
	p, _, err := r.c.Look(r.now)
	must(r.t, err)
	return p
}

// takes expects that a save with both files is taken.
func (r *race) takes() {
	r.t.Helper()
	for range 60 {
		if p := r.look(); p != nil {
			if paths(p) != "a.raw b.raw" {
				r.t.Fatalf("%s is taken", paths(p))
			}
			r.c.Taken(p)
			r.now = r.now.Add(10 * time.Second)
			return
		}
	}
	r.t.Fatal("no save is taken")
}

// takesNone expects that nothing is taken: a.raw is of a newer save than b.raw.
func (r *race) takesNone() {
	r.t.Helper()
	for range 20 {
		if p := r.look(); p != nil {
			r.t.Fatalf("%s is taken, of two saves", paths(p))
		}
	}
}

// Saves write a.raw and b.raw. A worker goes on while the agent looks, so that the list of files and the notices
// are of different moments. No save is taken with a file of the next one.
func TestFilesThatAreWrittenDuringALook(t *testing.T) {
	for what, next := range map[string]func(r *race){
		"a.raw is emptied when it is listed, and complete before the notices are read": func(r *race) {
			r.write("a.raw", "b.raw")
			r.do("create", "a.raw")
			r.now = r.now.Add(70 * time.Millisecond)
			r.disk.between = func() { r.do("write", "a.raw"); r.do("close", "a.raw") }
		},
		"a.raw is emptied in two looks": func(r *race) {
			r.write("a.raw", "b.raw")
			r.do("create", "a.raw")
			r.now = r.now.Add(70 * time.Millisecond)
			if p := r.look(); p != nil {
				r.t.Fatalf("%s is taken", paths(p))
			}
			r.disk.between = func() { r.do("write", "a.raw"); r.do("close", "a.raw") }
		},
		"a save that failed left a.raw empty": func(r *race) {
			r.write("a.raw", "b.raw")
			r.do("create", "a.raw")
			r.do("close", "a.raw")
			r.takesNone()
			r.write("a.raw")
		},
	} {
		for _, saves := range []int{1, 5} { // the order of saves is known after some
			t.Run(fmt.Sprintf("%s, after %d", what, saves), func(t *testing.T) {
				r := newRace(t)
				for range saves {
					r.write("a.raw", "b.raw")
					r.takes()
				}
				next(r)
				r.takesNone()
			})
		}
	}
}

// The close of b.raw comes during a look, after the files were listed. The pass is of that save, not of the
// next one. If it counted for the next one, the counts would fit when a.raw is of the save after that.
func TestFileThatIsClosedDuringALook(t *testing.T) {
	for how, calls := range map[string][]string{"written": written, "mapped": mapped} {
		for _, looked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the next save looked at: %t", how, looked), func(t *testing.T) {
				r := newRace(t)
				r.write("a.raw", "b.raw")
				r.takes()
				r.save(calls, "a.raw")
				last := len(calls) - 1
				r.save(calls[:last], "b.raw")
				r.now = r.now.Add(70 * time.Millisecond)
				r.disk.between = func() { r.do(calls[last], "b.raw") }
				r.takes()
				r.save(calls, "a.raw", "b.raw")
				if looked {
					r.takes()
				}
				r.save(calls, "a.raw")
				r.takesNone()
			})
		}
	}
}

// b.raw is written after the notices were read, and before the files are listed. It was completed once.
func TestFilesThatAreWrittenBeforeTheyAreListed(t *testing.T) {
	r := newRace(t)
	r.write("a.raw")
	r.look()
	r.disk.at, r.disk.listed = ".", func() { r.write("b.raw") }
	r.takes()
}

// A save that is made after the files were listed, and before the notices are read, is taken.
func TestASaveThatIsMadeDuringALook(t *testing.T) {
	for how, calls := range map[string][]string{"written": written, "mapped": mapped} {
		t.Run(how, func(t *testing.T) {
			r := newRace(t)
			r.write("a.raw", "b.raw")
			r.takes()
			r.do("create", "c.raw") // so that something is to be looked at
			r.disk.skip, r.disk.between = 1, func() { r.save(calls, "a.raw", "b.raw") }
			r.takes()
		})
	}
}

// A directory is watched when its files are written, and its mark is not. The save is taken once.
func TestAMarkThatComesWhileItsDirectoryIsListed(t *testing.T) {
	r := newRace(t)
	r.do("mkdir", "step-1")
	r.write("step-1/model.raw", "step-1/mark.tmp")
	r.disk.at, r.disk.listed = "step-1", func() {
		must(t, r.disk.call(call{Op: "rename", Name: "step-1/mark.tmp", To: "step-1/.elastic-commit"}))
	}
	taken := 0
	for range 20 {
		if p := r.look(); p != nil {
			r.c.Taken(p)
			taken++
		}
	}
	if taken != 1 {
		t.Errorf("taken %d times", taken)
	}
}

// The kernel gives no notices of a directory, although it seems to. Marks still count, each once.
func TestMarksOfADirectoryWithoutNotices(t *testing.T) {
	r := &race{t: t, now: time.Unix(1e9, 0)}
	r.disk = &busyDisk{playedDisk: newPlayedDisk(&r.now)}
	r.disk.still = true
	c, err := watch(tree{Dir{}, r.disk}, stampOfLives, Workers{State: func() WorkerState { return Running }}, nil)
	must(t, err)
	r.c = c
	taken := 0
	for range 3 {
		r.write("a.raw", "mark.tmp")
		must(t, r.disk.call(call{Op: "rename", Name: "mark.tmp", To: "a.raw.elastic-commit"}))
		for range 20 {
			if p := r.look(); p != nil {
				r.c.Taken(p)
				taken++
			}
		}
		r.do("create", "a.raw")
		if p := r.look(); p != nil {
			t.Errorf("%s is taken while it is written", paths(p))
		}
	}
	if taken != 3 {
		t.Errorf("taken %d times", taken)
	}
}
