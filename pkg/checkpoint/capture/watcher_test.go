package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"golang.org/x/sys/unix"
)

func TestFileOverTheOldOne(t *testing.T) {
	b := newBench(t, "model.pt")
	b.want(b.look(5*time.Second), "", "", 0) // what was there is not of these workers
	whole := archive(t, "weights")
	for n := range len(whole) {
		if n%10 == 3 {
			b.write("model.pt", whole[:n])
			b.want(b.look(500*time.Millisecond), "", "", 0)
		}
	}
	b.write("model.pt", whole)
	b.want(b.look(2*time.Second), "model.pt", "model.pt", unknown)
	b.want(b.look(5*time.Second), "", "", 0)
	b.write("model.pt", whole+"") // the same bytes again are another save
	b.want(b.look(200*time.Millisecond), "model.pt", "model.pt", unknown)
}

// A file is complete when its writer closed it, whatever its format, however long that takes.
func TestOpaqueFileIsCompleteWhenClosed(t *testing.T) {
	b := newBench(t)
	b.own = true
	b.watch(nil)
	for i, want := range []string{"", "model.raw", "model.raw"} {
		f, err := os.Create(filepath.Join(b.dir, "model.raw"))
		must(t, err)
		for range 5 {
			_, err := f.WriteString(fmt.Sprintf("step %d %0100d", i, i))
			must(t, err)
			b.want(b.look(5*time.Second), "", "", 0)
		}
		must(t, f.Close())
		b.want(b.look(300*time.Millisecond), want, want, unknown) // the first save: what else belongs to it?
		b.want(b.look(4*time.Second), map[bool]string{true: "model.raw"}[want == ""], "model.raw", unknown)
	}
}

// A file that is mapped for writing is under way until it is unmapped. Its times prove nothing.
func TestMappedFileIsUnderWay(t *testing.T) {
	b := newBench(t)
	b.own = true
	b.watch(nil)
	name := filepath.Join(b.dir, "model.raw")
	must(t, os.WriteFile(name, bytes.Repeat([]byte("a"), 4096), 0o600))
	b.want(b.look(2*time.Second), "model.raw", "model.raw", unknown)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	must(t, f.Close())
	m[0] = 'b'
	must(t, os.Chtimes(name, time.Time{}, time.Now().Add(-time.Minute)))
	b.want(b.look(20*time.Second), "", "", 0)
	if len(b.refused) != 1 || !strings.Contains(b.refused[0].Err.Error(), "mapped") {
		t.Errorf("refused: %v", b.refused)
	}
	must(t, unix.Munmap(m))
	b.want(b.look(2*time.Second), "model.raw", "model.raw", unknown)
}

// A file that is written in place, with the size and the time that it had, is a save: the time comes
// from a copy that keeps it.
func TestTimesThatAreSetBack(t *testing.T) {
	b := newBench(t)
	b.own = true
	b.watch(nil)
	b.look(0)
	name, then := filepath.Join(b.dir, "model.raw"), time.Unix(1e9, 0)
	for i := range 3 {
		if i > 0 {
			b.afterWrite(name) // the file's other times differ between the two saves
		}
		b.write("model.raw", fmt.Sprint("step ", i))
		must(t, os.Chtimes(name, then, then))
		p := b.look(2 * time.Second)
		b.want(p, "model.raw", "model.raw", unknown)
		if p != nil && p.Save.Files[0].Unsure != (i > 0) {
			t.Errorf("save %d: its bytes are unsure: %t", i, p.Save.Files[0].Unsure)
		}
		must(t, os.Chmod(name, 0o600+os.FileMode(i)))
		b.want(b.look(5*time.Second), "", "", 0)
	}
}

func TestRenamedIsCompleteAtOnce(t *testing.T) {
	b := newBench(t, "model.raw")
	for i := range 3 {
		b.write("model.raw.tmp", fmt.Sprint("step ", i))
		b.want(b.look(2*time.Second), "", "", 0)
		b.rename("model.raw.tmp", "model.raw")
		if i == 0 {
			b.want(b.look(500*time.Millisecond), "", "", 0) // the first save: what else belongs to it?
			b.now = b.now.Add(time.Second)
		}
		b.want(b.look(0), "model.raw", "model.raw", unknown)
	}
}

// A script that saves for the first time after a minute may pause for some seconds within that save.
// What it wrote by then is taken when the pause ends its life.
func TestFirstSaveWithAPause(t *testing.T) {
	for _, killed := range []bool{false, true} {
		b := newBench(t)
		b.want(b.look(time.Minute), "", "", 0)
		b.write("model.raw", "x")
		b.want(b.look(5*time.Second), "", "", 0)
		if killed {
			b.state = Killed
			b.want(b.once(true), "model.raw", "model.raw", unknown)
			continue
		}
		b.write("optimizer.raw", "x")
		b.want(b.look(5*time.Second), "", "", 0)
		b.want(b.look(4*time.Second), "model.raw optimizer.raw", "", unknown)
		if len(b.refused) != 0 {
			t.Errorf("refused: %v", b.refused)
		}
	}
}

// A directory that is filled under its own name is complete when it has the files of the one before
// it, or when the next one is begun.
func TestDirectoryOfAStep(t *testing.T) {
	b := newBench(t)
	b.write("tmp-step-5/model.raw", "x")
	b.write("tmp-step-5/deep/optimizer_5.raw", "y")
	b.rename("tmp-step-5", "step-5")
	b.want(b.look(0), "step-5/deep/optimizer_5.raw step-5/model.raw", "step-5", 5)
	b.write("step-10/model.raw", "x")
	b.want(b.look(time.Minute), "", "", 0)
	b.write("step-10/deep/optimizer_10.raw.tmp", "y")
	b.want(b.look(time.Minute), "", "", 0)
	b.rename("step-10/deep/optimizer_10.raw.tmp", "step-10/deep/optimizer_10.raw")
	b.want(b.look(300*time.Millisecond), "step-10/deep/optimizer_10.raw step-10/model.raw", "step-10", 10)
	b.write("step-15/other.raw", "x")
	b.want(b.look(time.Minute), "", "", 0)
	b.write("step-16/model.raw", "x")
	b.want(b.look(300*time.Millisecond), "step-15/other.raw", "step-15", 15)
	// Several at once: the newest, by number and not by name.
	for _, n := range []string{"18", "19", "112", "21"} {
		b.write("tmp"+n+"/model.raw", "x")
		b.rename("tmp"+n, "step-"+n)
	}
	b.want(b.look(time.Second), "step-112/model.raw", "step-112", 112)
	b.want(b.look(5*time.Second), "", "", 0)
	// The next one is under way already.
	b.write("tmp120/model.raw", "x")
	b.rename("tmp120", "step-120")
	b.write("step-130/mod", "x")
	b.want(b.look(0), "step-120/model.raw", "step-120", 120)
}

// After a rollback the numbers begin lower.
func TestLowerNumberIsTheNewerSave(t *testing.T) {
	b := newBench(t, "step-500/model.raw")
	b.write("tmp/model.raw", "x")
	b.rename("tmp", "step-10")
	b.want(b.look(0), "step-10/model.raw", "step-10", 10)
}

func TestWhatIsNoSave(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600))
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(b.dir, "link.pt")))
	must(t, os.Symlink(outside, filepath.Join(b.dir, "step-3")))
	must(t, os.MkdirAll(filepath.Join(b.dir, "step-4"), 0o755))
	must(t, os.Symlink("/etc/passwd", filepath.Join(b.dir, "step-4", "model.pt")))
	mkfifo(t, filepath.Join(b.dir, "pipe.pt"))
	for _, name := range []string{
		".hidden", "model.pt.tmp", "model.pt~", "tmpabc", ".model.pt.swp", "x.partial", "model.tmp.4711",
		manifest.ReservedPrefix + "new-x/a", "train.log", "metrics.jsonl", "events.out.tfevents.1",
		"runs/a/events", "wandb/run", "tmp-checkpoint-3/model.pt",
	} {
		b.write(name, "x")
	}
	b.watch(nil)
	b.want(b.look(time.Minute), "", "", 0)
	b.write("model.pt", archive(t, "x"))
	b.want(b.look(8*time.Second), "model.pt", "model.pt", unknown)
	// A temporary name beside the first save may become a part of it.
	b = newBench(t)
	b.write("model.pt", archive(t, "x"))
	b.write("optimizer.pt.tmp", "x")
	b.want(b.look(time.Minute), "", "", 0)
	b.rename("optimizer.pt.tmp", "optimizer.raw")
	b.want(b.look(8*time.Second), "model.pt optimizer.raw", "", unknown)
}

// A script clears its directory by removing and making it: saves are found in the new one.
func TestDirectoryMadeAnew(t *testing.T) {
	b := newBench(t)
	b.write("model.pt", "old")
	b.want(b.look(time.Minute), "model.pt", "model.pt", unknown)
	must(t, os.RemoveAll(b.dir))
	if _, _, err := b.c.Look(time.Now()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the directory: %v", err)
	}
	must(t, os.Mkdir(b.dir, 0o755))
	b.write("model.pt", "new")
	b.want(b.look(time.Minute), "model.pt", "model.pt", unknown)
}

// A table that grows with every step holds nothing up, nor is it a save.
func TestLogUnderAnotherName(t *testing.T) {
	b := newBench(t)
	row := "step,loss\n"
	var s *Picture
	for i := 0; s == nil && i < 200; i++ {
		row += fmt.Sprintf("%d,0.5\n", i)
		b.write("metrics.csv", row)
		if i == 20 {
			b.write("tmp/model.raw", "x")
			b.rename("tmp", "step-1")
		}
		b.now = b.now.Add(100 * time.Millisecond)
		s = b.once(false)
	}
	b.want(s, "step-1/model.raw", "step-1", 1)
	b.write("metrics.csv", row+"more")
	b.write("tmp/model.raw", "x")
	b.rename("tmp", "step-2")
	b.want(b.look(0), "step-2/model.raw", "step-2", 2)
}

func TestTheEndOfTheWorkers(t *testing.T) {
	z := archive(t, "x")
	for _, c := range []struct {
		name  string
		state WorkerState
		write func(b *bench)
		want  string
		torn  int
	}{
		{"opaque, ended", Exited, func(b *bench) { b.write("m.raw", "x") }, "m.raw", 0},
		{"opaque, killed", Killed, func(b *bench) { b.write("m.raw", "x") }, "", 1},
		{"opaque, closed by a server that runs on", Running, func(b *bench) { b.write("m.raw", "x") }, "", 1},
		{"renamed by a server that runs on", Running,
			func(b *bench) { b.write("m.tmp", "x"); b.rename("m.tmp", "m.raw") }, "m.raw", 0},
		{"half, by a server that runs on", Running, func(b *bench) { b.write("m.pt", z[:30]) }, "", 1},
		{"whole, ended", Exited, func(b *bench) { b.write("m.pt", z) }, "m.pt", 0},
		{"whole, killed", Killed, func(b *bench) { b.write("m.pt", z) }, "", 1},
		{"half, ended", Exited, func(b *bench) { b.write("m.pt", z[:30]) }, "", 1},
		{"empty, ended", Exited, func(b *bench) { b.write("m.raw", "") }, "", 1},
		{"renamed, killed", Killed, func(b *bench) { b.write("m.tmp", "x"); b.rename("m.tmp", "m.raw") },
			"m.raw", 0},
		{"directory, ended", Exited, func(b *bench) { b.write("step-1/m.raw", "x") }, "step-1/m.raw", 0},
		{"directory, killed", Killed, func(b *bench) { b.write("step-1/m.raw", "x") }, "", 1},
		{"directory renamed, killed", Killed,
			func(b *bench) { b.write("tmp/m.raw", "x"); b.rename("tmp", "step-1") }, "step-1/m.raw", 0},
		{"directory with scratch, ended", Exited,
			func(b *bench) { b.write("step-1/m.raw.tmp", "x"); b.write("step-1/n.raw", "x") }, "", 1},
		{"dcp without metadata, ended", Exited, func(b *bench) { b.write("s/a.distcp", "x") }, "", 1},
		{"megatron without tracker, ended", Exited, func(b *bench) { b.write("iter_0000001/m.pt", z) }, "",
			1},
		{"marked, killed", Killed,
			func(b *bench) { b.write("s/m.raw", "x"); b.write("s/.elastic-commit", "{}") },
			"s/.elastic-commit s/m.raw", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			c.write(b)
			b.state = c.state
			s, refused, err := b.c.Last(b.now)
			must(t, err)
			if paths(s) != c.want || len(refused) != c.torn {
				t.Errorf("save %q, refused %v", paths(s), refused)
			}
			for _, r := range refused {
				if r.Reason != "torn" {
					t.Errorf("refused: %+v", r)
				}
			}
		})
	}
}

// What a dead generation left is not taken as a save of the next one.
func TestNextGenerationStartsFromWhatIsThere(t *testing.T) {
	b := newBench(t)
	b.write("step-3/m.raw", "uncommitted")
	b.write("best.raw", "x")
	b.watch(nil)
	b.want(b.look(time.Minute), "", "", 0)
	b.write("tmp/m.raw", "x")
	b.rename("tmp", "step-5")
	b.want(b.look(0), "best.raw step-5/m.raw", "step-5", 5)

	b = newBench(t, "ckpt_100.raw", "ckpt_200.raw", "vocab.raw")
	b.watch(&manifest.Manifest{Files: []manifest.File{{Path: "ckpt_100.raw"}}})
	b.write("vocab.raw", "changed")
	b.want(b.look(3*time.Second), "ckpt_100.raw vocab.raw", "ckpt_100.raw", 100)
}

// While nothing happens, a look costs less than a thousandth of the time until the next one.
func TestPauseFollowsTheCost(t *testing.T) {
	b := newBench(t, "a", "b")
	for range 3 {
		b.once(false)
		if p := b.c.Pause(); p < pauseMin || p > pauseMax {
			t.Errorf("pause %v", p)
		}
	}
	b.write("a", "x")
	b.once(false)
	if p := b.c.Pause(); p < pauseBusy || p > pauseMax {
		t.Errorf("pause %v while something is written", p)
	}
}

// A Put reads from the directory what the capture found in it.
func TestCapturedSavesCanBePut(t *testing.T) {
	b := newBench(t)
	s := checkpointtest.OpenStore(t, memfs.New())
	for i := range 5 {
		b.write("tmp/m.raw", fmt.Sprint("bytes ", i))
		b.rename("tmp", fmt.Sprint("step-", i))
		save := b.look(time.Second)
		m, h, err := s.Put(t.Context(), save.Save)
		must(t, err)
		must(t, s.Verify(t.Context(), h))
		to := t.TempDir()
		path := checkpointtest.Restore(t, s, h, to)
		raw, err := os.ReadFile(filepath.Join(path, "m.raw"))
		must(t, err)
		if string(raw) != fmt.Sprint("bytes ", i) || m.Sequence == 0 {
			t.Errorf("save %d: %q, %+v", i, raw, m)
		}
	}
	if !slices.IsSortedFunc(s.Held(), func(a, b manifest.Hash) int { return slices.Compare(a[:], b[:]) }) ||
		len(s.Held()) != 5 {
		t.Errorf("held: %d", len(s.Held()))
	}
}

func TestStepNames(t *testing.T) {
	for name, want := range map[string]string{
		"step-120": "120", "step_120.pt": "120", "global_step7": "7", "iter_0000100": "100",
		"checkpoint-500":        "500",
		"ckpt_9.pt":             "9",
		"epoch=1-step=200.ckpt": "200", "model_step120_best": "120", "epoch_3": "null", "resnet50.pt": "null",
		"model": "null", "mystep5": "null",
		"step-99999999999999999999": "null",
	} {
		reported, err := progressOf(nil, &entry{name: name})
		must(t, err)
		if got, _ := json.Marshal(reported.Step); string(got) != want {
			t.Errorf("%s: step %s, want %s", name, got, want)
		}
	}
}
