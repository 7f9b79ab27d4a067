package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// saves is how many saves a worker of TestEverySystemCall makes.
const saves = 4

// point is a moment in the life of a worker: before call number At of the save of a step.
type point struct{ Step, At int }

// scenario is one life of a worker.
type scenario struct {
	layout int
	in     string        // directory of the saves
	paused point         // where the worker pauses
	pause  time.Duration // and how long
	gap    time.Duration // between two saves
	killed point         // where it is killed; Step is 0 if it ends by itself
	steady bool          // the agent looks after each call, and not only in pauses
}

func (s scenario) String() string {
	return fmt.Sprintf("%s in %q, pause of %s at %v, saves each %s, killed at %v, steady %t",
		layouts[s.layout].name, s.in, s.pause, s.paused, s.gap, s.killed, s.steady)
}

// everyScenario are all scenarios: a pause before each call of each save, and death at each call
// after it, in all layouts and directories.
func everyScenario(t *testing.T, yield func(scenario)) {
	for i, layout := range layouts {
		probe := script{t: t, step: 1}
		layout.save(&probe, "")
		for step := 1; step <= saves; step++ {
			for at := range probe.calls {
				kills := []point{{}}
				for k := at; k < len(probe.calls); k++ {
					kills = append(kills, point{step, k})
				}
				for k := range probe.calls {
					kills = append(kills, point{step + 1, k})
				}
				for _, killed := range kills {
					for _, pause := range []time.Duration{300 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
						for _, gap := range []time.Duration{0, 2 * time.Second} {
							if layout.name == numbered && gap == 0 {
								continue
							}
							for _, in := range []string{"", "last/", "resnet50/", "exp1/ckpt/"} {
								yield(scenario{i, in, point{step, at}, pause, gap, killed, at%2 == 0})
							}
						}
					}
				}
			}
		}
	}
}

// life is a worker and the capture that looks at its directory.
type life struct {
	*bench
	w        *writer
	s        scenario
	step     int
	newest   int // step of the newest save that was taken
	problems []string
}

func (l *life) wrong(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// A worker pauses before any system call of a save for as long as it likes, and is killed at any
// later one, in all layouts and with names with and without digits. What is taken is exactly one
// save, and a save that is whole is taken. COUNT sets how many of the scenarios are played.
func TestEverySystemCall(t *testing.T) {
	count := 120
	if n, err := strconv.Atoi(os.Getenv("COUNT")); err == nil {
		count = n
	}
	total := 0
	everyScenario(t, func(scenario) { total++ })
	n, played, failed := 0, 0, 0
	everyScenario(t, func(s scenario) {
		if n++; n*count/total == (n-1)*count/total || failed >= 10 {
			return
		}
		played++
		if !t.Run(s.String(), func(t *testing.T) {
			for _, p := range play(t, s) {
				t.Error(p)
			}
		}) {
			failed++
		}
	})
	t.Logf("%d of %d scenarios", played, total)
}

// Pauses at which files of two saves were once taken together.
func TestPausesThatMixedSaves(t *testing.T) {
	const soon, late, long = 300 * time.Millisecond, 2 * time.Second, 20 * time.Second
	for _, s := range []scenario{
		{layout: layoutOf(t, "two files of any format"), paused: point{4, 5}, pause: late},
		{layout: layoutOf(t, "numbered parts"), in: "last/", paused: point{2, 10}, pause: late, steady: true},
		{layout: layoutOf(t, "fsync and rename"), paused: point{1, 6}, pause: late, steady: true},
		{layout: layoutOf(t, "a file a step, and the newest under one name"), paused: point{3, 5}, pause: late},
		{layout: layoutOf(t, "the newest under one name, and a file a step"), paused: point{2, 5}, pause: late},
		{layout: layoutOf(t, "a file a step, the oldest removed"), paused: point{1, 6}, pause: late, steady: true},
		{layout: layoutOf(t, "a file a step, the oldest removed"), paused: point{3, 5}, pause: late},
		{layout: layoutOf(t, "Megatron"), paused: point{2, 9}, pause: soon, gap: late},
		{layout: layoutOf(t, "a directory a step"), in: "exp1/", paused: point{4, 7}, pause: late, gap: late},
		{layout: layoutOf(t, "two files in place"), in: "resnet50/", paused: point{1, 6}, pause: long,
			killed: point{2, 9}, steady: true},
		{layout: layoutOf(t, "two files of any format"), in: "resnet50/", paused: point{1, 6}, pause: long,
			killed: point{2, 8}, steady: true},
		{layout: layoutOf(t, "rename"), paused: point{1, 5}, pause: long, gap: late},
		{layout: layoutOf(t, "two memory maps"), in: "last/", paused: point{1, 8}, pause: long,
			killed: point{2, 11}, steady: true},
		{layout: layoutOf(t, "two memory maps"), paused: point{1, 13}, pause: long, gap: late},
		{layout: layoutOf(t, "numbered parts"), in: "exp1/ckpt/", paused: point{1, 6}, pause: long, gap: late, steady: true},
	} {
		t.Run(s.String(), func(t *testing.T) {
			for _, p := range play(t, s) {
				t.Error(p)
			}
		})
	}
}

func layoutOf(t *testing.T, name string) int {
	t.Helper()
	for i, l := range layouts {
		if l.name == name {
			return i
		}
	}
	t.Fatalf("no layout %q", name)
	return 0
}

func play(t *testing.T, s scenario) []string {
	b := &bench{t: t, dir: t.TempDir(), now: time.Now()}
	w := startWriter(t, b.dir)
	defer w.kill()
	b.writer = w.cmd.Process.Pid
	b.watch(nil)
	l := &life{bench: b, w: w, s: s}
	for l.step = 1; l.step <= saves; l.step++ {
		if !l.save() {
			w.kill()
			b.state = Killed
			l.looks(0, true)
			return l.problems
		}
		l.passes(s.gap)
		if whole := l.step > 1 && s.gap > time.Second; whole && l.newest != l.step {
			l.wrong("save %d is whole, and %d is the newest that was taken", l.step, l.newest)
		}
	}
	l.step = saves
	w.end()
	b.state = Exited
	l.looks(0, true)
	if l.newest != saves {
		l.wrong("the worker ended, and save %d is the newest that was taken: %v", l.newest, b.refused)
	}
	return l.problems
}

// save makes the calls of one save. false: the worker is to be killed.
func (l *life) save() bool {
	sc := script{t: l.t, step: l.step}
	layouts[l.s.layout].save(&sc, l.s.in)
	l.tick()
	for i, c := range sc.calls {
		at := point{l.step, i}
		if at == l.s.paused {
			l.passes(l.s.pause)
		}
		if at == l.s.killed {
			return false
		}
		l.w.make(c)
		if l.s.steady || i == 0 {
			l.looks(60*time.Millisecond, false)
		}
	}
	return true
}

// tick returns when the clock of the file system moved on: two writes within its grain look
// like one.
func (l *life) tick() {
	probe := filepath.Join(l.t.TempDir(), "probe")
	must(l.t, os.WriteFile(probe, nil, 0o600))
	l.afterWrite(probe)
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
	if p := l.once(last); p != nil {
		l.check(p)
	}
}

// check reads the files of a save: all of one step, all that the step has, and each whole.
func (l *life) check(p *Picture) {
	steps, files := map[int]bool{}, 0
	for _, f := range p.Save.Files {
		raw, err := os.ReadFile(filepath.Join(l.dir, filepath.FromSlash(f.Path)))
		must(l.t, err)
		step := l.stepOf(f.Path, string(raw))
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
	if files != layouts[l.s.layout].files && len(steps) > 0 && !steps[1] {
		l.wrong("%d of %d files: %s", files, layouts[l.s.layout].files, paths(p))
	}
}

// stepOf is the step whose file has these bytes; 0 if none has, -1 if each has.
func (l *life) stepOf(path, raw string) int {
	for step := 1; step <= l.step; step++ {
		s := script{t: l.t, step: step}
		layouts[l.s.layout].save(&s, l.s.in)
		if content, ok := s.result()[path]; ok && content == raw {
			if filepath.Base(path) == staticFile {
				return -1
			}
			return step
		}
	}
	return 0
}

// result is what the files of the save contain, by path.
func (s *script) result() map[string]string {
	files := map[string]string{}
	for _, c := range s.calls {
		switch c.Op {
		case "write":
			files[c.Name] += string(c.Data)
		case "store":
			files[c.Name] = files[c.Name][:c.At] + string(c.Data)
		case "rename":
			for name, content := range files {
				if rest, ok := cutPath(name, c.Name); ok {
					files[c.To+rest] = content
					delete(files, name)
				}
			}
		}
	}
	return files
}

// cutPath cuts a file or directory off the path of what is in it.
func cutPath(name, from string) (rest string, ok bool) {
	if len(name) < len(from) || name[:len(from)] != from || len(name) > len(from) && name[len(from)] != '/' {
		return "", false
	}
	return name[len(from):], true
}
