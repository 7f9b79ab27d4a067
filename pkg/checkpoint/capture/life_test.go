package capture

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/files"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// life is a worker and the capture that looks at its directory.
type life struct {
	t       *testing.T
	w       worker
	c       *Watcher
	now     time.Time
	state   WorkerState
	s       scenario
	steps   []*script // the saves of the layout; 0 is none
	step    int
	newest  int // step of the newest save that was taken
	refused []Refusal
	watch   func(resume *manifest.Manifest) *Watcher
	last    *Picture // that was taken
	wrongs  map[scenario][]string
	taken   []string // what was taken, and when
	deaths  []point  // at which a copy of it is killed
	died    []string // what was taken of the last copy
	deaf    bool     // the disk gives no notices
}

// tree is a disk as the capture sees it.
func (l *life) tree(d *playedDisk) dirfs.Reader {
	if l.deaf {
		return struct{ dirfs.Reader }{d}
	}
	return d
}

func (l *life) wrong(format string, args ...any) {
	l.wrongs[l.s] = append(l.wrongs[l.s], fmt.Sprintf(format, args...))
}

// books has the saves of each layout in each directory.
type books map[string][]*script

func (b books) of(t *testing.T, s scenario) []*script {
	key := fmt.Sprint(s.layout, s.in)
	if b[key] == nil {
		b[key] = []*script{nil}
		for step := 1; step <= saves; step++ {
			sc := &script{t: t, step: step}
			layouts[s.layout].save(sc, s.in)
			sc.files = sc.result()
			b[key] = append(b[key], sc)
		}
	}
	return b[key]
}

// names are those of --save-files.
func (s scenario) names() (names []string) {
	for _, n := range layouts[s.layout].names {
		names = append(names, s.in+n)
	}
	return names
}

var stampOfLives = manifest.Stamp{Job: "x", UID: "u1", Generation: 1, WorldSize: 2}

// begin begins the life of a played worker.
func (b books) begin(t *testing.T, s scenario) *life {
	return b.beginOn(t, s, false)
}

func (b books) beginOn(t *testing.T, s scenario, deaf bool) *life {
	l := &life{t: t, s: s, steps: b.of(t, s), now: time.Unix(1e9, 0), wrongs: map[scenario][]string{}, deaf: deaf}
	disk := newPlayedDisk(&l.now)
	l.watch = func(resume *manifest.Manifest) *Watcher {
		c, err := watch(tree{Dir{Names: s.names()}, l.tree(disk)}, stampOfLives, Workers{
			State: func() WorkerState { return l.state },
		}, resume)
		must(t, err)
		return c
	}
	l.w, l.c = &playedWorker{t, disk}, l.watch(nil)
	return l
}

// beginReal begins the life of a process that saves into a directory of this machine.
func (b books) beginReal(t *testing.T, s scenario) *life {
	l := &life{t: t, s: s, steps: b.of(t, s), now: time.Now(), wrongs: map[scenario][]string{}}
	dir := t.TempDir()
	w := startWriter(t, dir)
	l.watch = func(resume *manifest.Manifest) *Watcher {
		c, err := Watch(Dir{Path: dir, Names: s.names()}, stampOfLives, Workers{
			State: func() WorkerState { return l.state },
		}, resume)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	l.w, l.c = w, l.watch(nil)
	return l
}

// play finds what is wrong with what was taken.
func (l *life) play() {
	for l.step = 1; l.step <= saves; l.step++ {
		if l.step == resumedAt && l.s.resumed && !l.resume() {
			return
		}
		if !l.save() {
			l.die()
			return
		}
		l.passes(l.s.gap)
		if want := l.due(); l.s.gap > time.Second && l.newest < want {
			l.wrong("save %d should be taken, and %d is the newest that was", want, l.newest)
		}
	}
	l.step = saves
	l.w.end()
	l.state = Exited
	l.looks(0, true)
	switch {
	case layouts[l.s.layout].taken == never:
		if l.newest != 0 || len(l.refused) == 0 {
			l.wrong("save %d was taken, refused: %v", l.newest, l.refused)
		}
	case l.newest != saves:
		l.wrong("the worker ended, and save %d is the newest that was taken: %v", l.newest, l.refused)
	}
}

// due is the newest save that must have been taken while the next one has not begun.
func (l *life) due() int {
	switch layouts[l.s.layout].taken {
	case atOnce:
		return l.step
	case second:
		if l.step == 1 {
			return 0
		}
		return l.step
	case nextOne:
		return l.step - 1
	}
	return 0
}

// resume begins a generation that has the newest save. false: there is none.
func (l *life) resume() bool {
	l.passes(3 * time.Second)
	if l.newest != l.step-1 {
		// of saves without a pause the first may be seen when the second one is complete
		if at := layouts[l.s.layout].taken; at == atOnce || at == second && l.s.gap > time.Second {
			l.wrong("save %d is whole, and %d is the newest that was taken", l.step-1, l.newest)
		}
		return false
	}
	from := &manifest.Manifest{}
	for _, f := range l.last.Save.Files {
		from.Files = append(from.Files, manifest.File{Path: f.Path})
	}
	l.c = l.watch(from)
	return true
}

// die kills the worker, or makes it fail. Its open files are closed in both cases. Every second
// time the agent looks before it knows of the end.
func (l *life) die() {
	calls := l.steps[min(l.step, saves)].calls
	if at := l.s.killed; l.s.full() && at.Step <= saves && calls[at.At].Op == "write" {
		c := calls[at.At]
		c.Data = c.Data[:len(c.Data)/2]
		l.w.make(c)
	}
	l.w.kill()
	if l.s.killed.At%4 >= 2 {
		l.looks(0, false)
	}
	if l.state = Killed; l.s.fails() {
		l.state = Failed
	}
	l.looks(0, true)
}

// dieHere kills a copy of a simulated worker, and looks with a copy of the capture.
func (l *life) dieHere(at point) {
	was := *l
	l.taken = slices.Clip(l.taken)
	disk := l.w.(*playedWorker).disk.copy()
	c := *l.c
	c.tree, c.notices = l.tree(disk), files.LogOf(l.tree(disk)) // it has read what the capture has
	disk.notes = slices.Clip(l.w.(*playedWorker).disk.notes)
	c.base, c.since, c.rested = maps.Clone(c.base), maps.Clone(c.since), maps.Clone(c.rested)
	c.firsts, c.sound = maps.Clone(c.firsts), maps.Clone(c.sound)
	x := &c.changes
	x.Passes, x.Open, x.Renamed = maps.Clone(x.Passes), maps.Clone(x.Open), maps.Clone(x.Renamed)
	x.Born, x.Shrunk = maps.Clone(x.Born), maps.Clone(x.Shrunk)
	x.Quiet, x.Made = maps.Clone(x.Quiet), maps.Clone(x.Made)
	c.refusals = refusals{said: maps.Clone(c.refusals.said), of: maps.Clone(c.refusals.of),
		several: c.refusals.several}
	l.w, l.c = &playedWorker{l.t, disk}, &c
	l.s.killed = at
	l.die()
	was.died = slices.Clone(l.taken)
	*l = was
}

// save makes the calls of one save. false: the worker is to be killed.
func (l *life) save() bool {
	l.w.tick()
	for i, c := range l.steps[l.step].calls {
		at := point{l.step, i}
		if at == l.s.paused {
			l.passes(l.s.pause)
		}
		if at == l.s.killed {
			return false
		}
		if slices.Contains(l.deaths, at) {
			l.dieHere(at)
		}
		l.w.make(c)
		if l.s.steady || i == 0 {
			l.looks(60*time.Millisecond, false)
		}
	}
	return true
}

// passes lets time pass, with looks as often as the agent looks.
func (l *life) passes(d time.Duration) {
	for end := l.now.Add(d); l.now.Before(end); {
		step := 100 * time.Millisecond
		if end.Sub(l.now) > 4*time.Second {
			step = time.Second
		}
		l.looks(step, false)
	}
}

func (l *life) looks(after time.Duration, last bool) {
	l.now = l.now.Add(after)
	if _, real := l.w.(*writer); real && l.now.Before(time.Now()) {
		l.now = time.Now() // files have the times of the machine, and none is written in the future
	}
	look := l.c.Look
	if last {
		look = l.c.Last
	}
	p, refused, err := look(l.now)
	must(l.t, err)
	if d, ok := l.w.(*playedWorker); ok {
		d.disk.read = len(d.disk.notes)
	}
	l.refused = append(l.refused, refused...)
	if p != nil {
		l.c.Taken(p)
		l.check(p)
	}
}

// check checks the files of a save: all are of one step, none of the step is missing, and each is
// complete.
func (l *life) check(p *Picture) {
	steps, files := map[int]bool{}, 0
	for _, f := range p.Save.Files {
		raw, err := l.w.read(f.Path)
		must(l.t, err)
		step := l.stepOf(f.Path, raw)
		if step == 0 {
			l.wrong("%s is not whole: %.40q", f.Path, raw)
		}
		if step > 0 {
			steps[step] = true
			l.newest = max(l.newest, step)
		}
		files++
	}
	if len(steps) > 1 {
		l.wrong("a save of the steps %v: %s", steps, paths(p))
	}
	if want := layouts[l.s.layout].files; files != want {
		l.wrong("%d of %d files: %s", files, want, paths(p))
	}
	l.last = p
	l.taken = append(l.taken, fmt.Sprintf("during save %d: %s of %v", l.step, paths(p), steps))
}

// stepOf is the step whose file has these bytes; 0 if none has, -1 if each has.
func (l *life) stepOf(path, raw string) int {
	for step := 1; step <= l.step; step++ {
		if content, ok := l.steps[step].files[path]; ok && content == raw {
			if filepath.Base(path) == staticFile {
				return -1
			}
			return step
		}
	}
	return 0
}
