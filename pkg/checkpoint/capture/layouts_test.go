package capture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
)

// script is a worker that saves. Each of its operations is one system call; it can stop before any.
type script struct {
	t    *testing.T
	dir  string
	step int
	open map[string]*os.File
	maps map[string][]byte
	ops  []func()
}

// content is what a file of a step consists of.
func (s *script) content(name string) []byte {
	if filepath.Ext(name) == ".pt" {
		return checkpointtest.Zip(s.t, map[string]string{"w": fmt.Sprintf("step %06d", s.step)})
	}
	return []byte(strings.Repeat(fmt.Sprintf("step %06d\n", s.step), 64))
}

func (s *script) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *script) do(op func() error) {
	s.ops = append(s.ops, func() { must(s.t, op()) })
}

// write writes a file in two writes.
func (s *script) write(name string) {
	data := s.content(name)
	s.do(func() error { return os.MkdirAll(filepath.Dir(s.path(name)), 0o755) })
	s.do(func() (err error) { s.open[name], err = os.Create(s.path(name)); return err })
	s.do(func() error { _, err := s.open[name].Write(data[:len(data)/2]); return err })
	s.do(func() error { _, err := s.open[name].Write(data[len(data)/2:]); return err })
	s.do(func() error { f := s.open[name]; delete(s.open, name); return f.Close() })
}

func (s *script) rename(from, to string) {
	s.do(func() error { return os.Rename(s.path(from), s.path(to)) })
}

// mapped writes a file through a memory map.
func (s *script) mapped(name string) {
	data := s.content(name)
	s.do(func() error { return os.MkdirAll(filepath.Dir(s.path(name)), 0o755) })
	s.do(func() (err error) {
		s.open[name], err = os.OpenFile(s.path(name), os.O_RDWR|os.O_CREATE, 0o600)
		return err
	})
	s.do(func() error { return s.open[name].Truncate(int64(len(data))) })
	s.do(func() (err error) {
		s.maps[name], err = unix.Mmap(int(s.open[name].Fd()), 0, len(data), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
		return err
	})
	s.do(func() error { f := s.open[name]; delete(s.open, name); return f.Close() })
	s.do(func() error { copy(s.maps[name], data[:len(data)/2]); return nil })
	s.do(func() error { copy(s.maps[name][len(data)/2:], data[len(data)/2:]); return nil })
	s.do(func() error { m := s.maps[name]; delete(s.maps, name); return unix.Munmap(m) })
}

// die is SIGKILL: the kernel closes what is open.
func (s *script) die() {
	for _, f := range s.open {
		must(s.t, f.Close())
	}
	for _, m := range s.maps {
		must(s.t, unix.Munmap(m))
	}
	clear(s.open)
	clear(s.maps)
}

// layouts are those of docs/CHECKPOINTS.md, and those that were once taken in part.
var layouts = []struct {
	name  string
	files int // of one save
	save  func(s *script, in string)
}{
	{"torch.save in place", 1, func(s *script, in string) { s.write(in + "model.pt") }},
	{"any format in place", 1, func(s *script, in string) { s.write(in + "weights.raw") }},
	{"two files in place", 2, func(s *script, in string) { s.write(in + "model.pt"); s.write(in + "optimizer.pt") }},
	{"two files of any format", 2, func(s *script, in string) {
		s.write(in + "model.raw")
		s.write(in +
			"optimizer.raw")
	}},
	{"rename", 1, func(s *script, in string) {
		s.write(in + "model.raw.tmp")
		s.rename(in+"model.raw.tmp", in+"model.raw")
	}},
	{"two renames", 2, func(s *script, in string) {
		for _, n := range []string{"model.raw", "optimizer.raw"} {
			s.write(in + n + ".tmp")
			s.rename(in+n+".tmp", in+n)
		}
	}},
	{"two renames at the end", 2, func(s *script, in string) {
		s.write(in + "model.raw.tmp")
		s.write(in + "optimizer.raw.tmp")
		s.rename(in+"model.raw.tmp", in+"model.raw")
		s.rename(in+"optimizer.raw.tmp", in+"optimizer.raw")
	}},
	{"a file a step", 1, func(s *script, in string) { s.write(fmt.Sprintf("%smodel_step%d.pt", in, s.step)) }},
	{"two files a step", 2, func(s *script, in string) {
		s.write(fmt.Sprintf("%smodel_step%d.raw", in, s.step))
		s.write(fmt.Sprintf("%soptim_step%d.raw", in, s.step))
	}},
	{"a directory a step", 2, func(s *script, in string) {
		s.write(fmt.Sprintf("%sstep-%d/shard0.raw", in, s.step))
		s.write(fmt.Sprintf("%sstep-%d/shard1.raw", in, s.step))
	}},
	{"a directory a step, renamed", 2, func(s *script, in string) {
		s.write(in + "saving.tmp/model.raw")
		s.write(in + "saving.tmp/optimizer.raw")
		s.rename(in+"saving.tmp", fmt.Sprintf("%scheckpoint-%d", in, s.step))
	}},
	{"Hugging Face", 2, func(s *script, in string) {
		s.write(fmt.Sprintf("%scheckpoint-%d/model.raw", in, s.step))
		s.write(fmt.Sprintf("%scheckpoint-%d/trainer_state.json", in, s.step))
	}},
	{"DCP", 2, func(s *script, in string) {
		s.write(fmt.Sprintf("%sstep%d/__0_0.distcp", in, s.step))
		s.write(fmt.Sprintf("%sstep%d/.metadata", in, s.step))
	}},
	{"told", 2, func(s *script, in string) {
		s.write(in + "save/model.raw")
		s.write(in + "save/told.tmp")
		s.rename(in+"save/told.tmp", in+"save/.elastic-commit")
	}},
	{"memory map", 1, func(s *script, in string) { s.mapped(in + "weights.raw") }},
}

// checkPicture reads the files of a save: all of one step, and whole.
func checkPicture(t *testing.T, s *script, p *Picture, files int, first bool) {
	t.Helper()
	steps, n := map[int]bool{}, 0
	for _, f := range p.Save.Files {
		raw, err := os.ReadFile(s.path(f.Path))
		must(t, err)
		found := false
		for step := 1; step <= s.step && !found; step++ {
			of := script{t: t, step: step}
			if found = string(of.content(f.Path)) == string(raw) || string(of.content("x.raw")) == string(raw); found {
				steps[step] = true
			}
		}
		if !found {
			t.Errorf("%s is not whole: %.60q", f.Path, raw)
		}
		n++
	}
	if len(steps) > 1 {
		t.Errorf("a save of the steps %v: %s", steps, paths(p))
	}
	if n != files && !first {
		t.Errorf("%d of %d files: %s", n, files, paths(p))
	}
}

// Scripts of all layouts, with names with and without digits, pause at any system call for as long
// as they like, and are killed at any: what is taken is of one save, and whole. One that is not
// killed has its saves taken.
func TestLayoutsPausedAndKilled(t *testing.T) {
	count := 150
	if testing.Short() {
		count = 45
	}
	for seed := range uint64(count) {
		rng := rand.New(rand.NewPCG(seed, 5))
		layout := layouts[seed%uint64(len(layouts))]
		in := []string{"", "resnet50/", "exp1/ckpt/", "run_3/"}[rng.IntN(4)]
		name := fmt.Sprintf("%d %s in %q", seed, layout.name, in)
		if !t.Run(name, func(t *testing.T) {
			pausedAndKilled(t, rng, layout.files,
				func(s *script) { layout.save(s, in) })
		}) {
			return
		}
	}
}

func pausedAndKilled(t *testing.T, rng *rand.Rand, files int, save func(*script)) {
	b := newBench(t)
	b.own = true
	b.watch(nil)
	s := &script{t: t, dir: b.dir, open: map[string]*os.File{}, maps: map[string][]byte{}}
	taken := 0
	look := func(pause time.Duration) {
		b.now = b.now.Add(pause)
		if p := b.once(false); p != nil {
			checkPicture(t, s, p, files, taken == 0)
			taken++
		}
	}
	const saves = 4
	killed := rng.IntN(3) > 0
	last := 1 + rng.IntN(saves)
	for s.step = 1; s.step <= saves; s.step++ {
		s.ops = nil
		save(s)
		end := len(s.ops)
		if killed && s.step == last {
			end = rng.IntN(end + 1)
		}
		for i, op := range s.ops[:end] {
			op()
			if rng.IntN(4) == 0 || i == len(s.ops)-1 {
				for _, pause := range []time.Duration{60 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second,
					5 * time.Second}[:1+rng.IntN(4)] {
					look(pause)
				}
			}
		}
		if killed && s.step == last {
			s.die()
			b.state = Killed
			if p := b.once(true); p != nil {
				checkPicture(t, s, p, files, taken == 0)
			}
			return
		}
		look(2 * time.Second)
		look(2 * time.Second)
	}
	s.step = saves
	if taken < saves-1 {
		t.Errorf("%d of %d saves were taken: %v", taken, saves, b.refused)
	}
}
