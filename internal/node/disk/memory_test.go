package disk

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// A node remembers its job, also one whose data was moved aside, if that is the one that is asked for.
func TestMemory(t *testing.T) {
	d := newTestDisk(t)
	d.Server = "one:2379"
	life(t, d, "u", "m")
	recall := func(of schema.UID) *rendezvous.Memory {
		t.Helper()
		m, err := d.Recall("a", of)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := recall(""); m != nil {
		t.Fatalf("before it was in a job: %v", m)
	}
	m := rendezvous.Memory{Job: rendezvous.Job{UID: "u"}, Generation: 3,
		Known: checkpoint.Head{Number: 2, Generation: 3}}
	if err := d.Remember("a", &m); err != nil {
		t.Fatal(err)
	}
	if got := recall(""); got == nil || got.Generation != 3 || got.Known.Number != 2 ||
		got.Job.Name != d.job || got.Server != "one:2379" {
		t.Errorf("%+v", got)
	}
	if aside := life(t, d, "v", "n"); aside == "" {
		t.Error("another job took the place, and nothing went aside")
	}
	if got := recall("v"); got != nil {
		t.Errorf("of the other job it remembers %+v", got)
	}
	if got := recall("u"); got == nil || got.Job.UID != "u" {
		t.Errorf("of the first job it remembers %+v", got)
	}
	if err := os.WriteFile(filepath.Join(d.JobDir("a"), memoryFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := recall("v"); got != nil {
		t.Errorf("what is no memory: %+v", got)
	}
}

// The memory of the version before is read: it has the job, the generation and the newest commit.
func TestMemoryOfTheVersionBefore(t *testing.T) {
	d := newTestDisk(t)
	life(t, d, "u", "m")
	before := `{"server":"s:1","claim":{"job":{"uid":"u","attempt":1,"slots":1,"succeeds":"t","lineage":["r"],` +
		`"limits":{"min":1,"max":2,"exact":false}},"wish":{"np":2},"generation":9,"world":9,"world_order":17,` +
		`"count":2,"rank":0,"members":["a","b"],"known":{"number":4,"order":16,"generation":8,"copies":2,` +
		`"bytes":3},"heads":null,"newest":null,"looked":false,"behind":false,"gave_up":["q"]}}`
	if err := os.WriteFile(filepath.Join(d.JobDir("a"), memoryFile), []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := d.Recall("a", "u")
	if err != nil || m == nil || m.Job.Identity() != "u" || m.Generation != 9 || m.Known.Number != 4 ||
		m.Server != "s:1" {
		t.Errorf("%+v, %v", m, err)
	}
}

// withCheckpoint is a disk with a job u that has checkpoint 5 of generation 3.
func withCheckpoint(t *testing.T) (*Disk, checkpoint.Head) {
	t.Helper()
	d := newTestDisk(t)
	if _, err := d.Lock("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Adopt("a", rendezvous.Job{UID: "u"}, nil); err != nil {
		t.Fatal(err)
	}
	s := checkpointtest.OpenDir(t, filepath.Join(d.JobDir("a"), StoreDir))
	save := memfs.New()
	memfs.Model(t, save)
	_, older := checkpointtest.Put(t, s, save, 2, 9)
	m, newest := checkpointtest.Put(t, s, save, 3, 1)
	h := checkpoint.Head{Number: 5, Generation: 3, Manifest: newest, Step: m.Step, Bytes: m.Bytes()}
	for _, c := range []checkpoint.Head{{Number: 4, Generation: 2, Manifest: older, Bytes: m.Bytes()}, h} {
		if err := s.AddCommitted(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mem := rendezvous.Memory{Job: rendezvous.Job{UID: "u"}, Generation: 7}
	if err := d.Remember("a", &mem); err != nil {
		t.Fatal(err)
	}
	return d, h
}

// What a node has is moved aside. Its newest checkpoint may stay for the next job, above whose
// generations that job goes on, and nothing of the old data changes.
func TestMoveAside(t *testing.T) {
	for _, what := range []rendezvous.Aside{{}, {Newest: true}} {
		d, h := withCheckpoint(t)
		b, err := d.MoveAside(t.Context(), "a", what)
		if err != nil {
			t.Fatal(err)
		}
		aside := d.JobDir("a") + "~u"
		s := checkpointtest.OpenDir(t, filepath.Join(aside, StoreDir))
		if err := s.Verify(t.Context(), h.Manifest); err != nil || len(s.Numbers()) != 2 {
			t.Errorf("aside: %v, commits %v", err, s.Numbers())
		}
		if !what.Newest {
			if m, err := d.Recall("a", "v"); b != nil || m != nil || err != nil {
				t.Errorf("it brings %+v, and remembers %+v, %v", b, m, err)
			}
			continue
		}
		if b == nil || b.Head.Number != 5 || b.Head.Manifest != h.Manifest || b.Has != nil || b.From != "u" {
			t.Fatalf("it brings %+v", b)
		}
		if m, err := d.Recall("a", "v"); m == nil || err != nil {
			t.Errorf("after a crash the next agent would not be asked: %v", err)
		}
		if g, err := d.LastGeneration("a"); g != 7 || err != nil {
			t.Errorf("generations go on above %d, %v", g, err)
		}
		if _, err := d.Adopt("a", rendezvous.Job{UID: "v"}, nil); err != nil {
			t.Fatal(err)
		}
		tree, err := dirfs.Make(filepath.Join(d.JobDir("a"), StoreDir))
		if err != nil {
			t.Fatal(err)
		}
		mine := checkpointtest.OpenStore(t, tree)
		if got, err := mine.Brought(); got == nil || got.Manifest != h.Manifest || err != nil {
			t.Errorf("it offers %+v, %v", got, err)
		}
		if err := mine.Verify(t.Context(), h.Manifest); err != nil || len(mine.Numbers()) != 0 {
			t.Errorf("brought: %v, commits %v", err, mine.Numbers())
		}
	}
}

// A node comes back to a job that its living members made again. Its data is moved aside, and a copy of
// the newest checkpoint of the job stays, so that the others can read it. Data of another job does not.
func TestAdoptAfterTheJobWasMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		first schema.UID
		head  func(whole checkpoint.Head) checkpoint.Head
		stays bool
	}{
		{"the newest checkpoint", "u", func(h checkpoint.Head) checkpoint.Head { return h }, true},
		{"one that is not here", "u", func(h checkpoint.Head) checkpoint.Head {
			h.Manifest[0]++
			return h
		}, false},
		{"of another job", "other", func(h checkpoint.Head) checkpoint.Head { return h }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, whole := withCheckpoint(t)
			aside, err := d.Adopt("a", rendezvous.Job{UID: "v", FirstUID: c.first, Remade: 1},
				[]checkpoint.Head{c.head(whole)})
			if err != nil || aside != d.JobDir("a")+"~u" {
				t.Fatalf("moved to %q, %v", aside, err)
			}
			tree, err := dirfs.Make(filepath.Join(d.JobDir("a"), StoreDir))
			if err != nil {
				t.Fatal(err)
			}
			mine := checkpointtest.OpenStore(t, tree)
			want := []checkpoint.Number{}
			if c.stays {
				want = append(want, whole.Number)
			}
			if err := mine.Verify(t.Context(), whole.Manifest); (err == nil) != c.stays {
				t.Errorf("checkpoint 5: %v", err)
			}
			if got := mine.Numbers(); !slices.Equal(got, want) || len(mine.Held()) != len(want) {
				t.Errorf("it has the commits %v, and holds %d", got, len(mine.Held()))
			}
		})
	}
}

// A checkpoint that was moved aside before is taken by the uid of its job, and what is present stays aside.
func TestMoveAsideAnEarlierRun(t *testing.T) {
	d, h := withCheckpoint(t)
	if _, err := d.MoveAside(t.Context(), "a", rendezvous.Aside{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Adopt("a", rendezvous.Job{UID: "v"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Remember("a", &rendezvous.Memory{Job: rendezvous.Job{UID: "v"}}); err != nil {
		t.Fatal(err)
	}
	for _, run := range []schema.UID{"w", "u"} {
		b, err := d.MoveAside(t.Context(), "a", rendezvous.Aside{Newest: true, Run: run})
		if err != nil || (run == "u") != (b != nil && b.Head.Manifest == h.Manifest && b.From == "u") {
			t.Errorf("of run %s it brings %+v, %v", run, b, err)
		}
	}
	if was, err := d.uidOf(d.dirOf("a") + "~v"); was != "v" || err != nil {
		t.Errorf("aside is %q, %v", was, err)
	}
}
