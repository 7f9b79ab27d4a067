package judge

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// folder is a checkpoint directory as the caller of Decide sees it.
type folder struct {
	m     Memory
	files map[string]*file
	order uint64
	now   time.Time
	state Workers
	last  Decision

	looked time.Time
	opaque bool // the formats of its files tell nothing
}

// file is one file of it, and the step that it is of.
type file struct {
	step        int
	in          bool
	passes      int
	first, last uint64
	prior       uint64
	since       time.Time
}

var epoch = time.Unix(1_000_000, 0)

func newFolder() *folder { return &folder{files: map[string]*file{}, now: epoch.Add(time.Second)} }

func (d *folder) write(name string, step int) {
	if d.files[name] == nil {
		d.files[name] = &file{}
	}
	f := d.files[name]
	d.order++
	f.step, f.prior, f.last, f.since = step, f.last, d.order, d.now
	if f.passes++; f.passes == 1 {
		f.first = d.order
	}
}

// look is one look, which takes what is decided. It returns the files that were taken, with their
// steps.
func (d *folder) look() (taken []string) {
	l := Look{Now: d.now, Began: epoch, Workers: d.state, Before: d.looked}
	d.looked = d.now
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[name]
		l.Units = append(l.Units, Unit{Path: name, Key: name, Status: Done, Fresh: f.passes > 0, InLast: f.in,
			Passes: max(1, f.passes), First: f.first, Last: f.last, Prior: f.prior,
			Since: f.since, Opens: f.passes, Opaque: d.opaque, Written: f.since})
	}
	d.last = d.m.Decide(l)
	if d.last.Take == nil {
		return nil
	}
	d.m.Taken(d.last)
	for _, f := range d.files {
		f.in = false
	}
	for _, u := range d.last.Take {
		f := d.files[u.Path]
		taken = append(taken, fmt.Sprint(u.Path, f.step))
		*f = file{step: f.step, in: true, since: f.since}
	}
	slices.Sort(taken)
	return taken
}

// play plays a story: a letter and a number is a file that is written for a step, and is looked at if
// no minus follows; a second passes at each dot, and a tenth of it at each underscore and before each
// write. "exit" and "kill" end the workers, "next" starts those of the next generation from the last
// save. It returns what was taken, in order.
func (d *folder) play(story string) (saves []string) {
	for _, word := range strings.Fields(story) {
		switch word {
		case ".":
			d.now = d.now.Add(time.Second)
		case "_":
			d.now = d.now.Add(100 * time.Millisecond)
		case "exit":
			d.state = Exited
		case "kill":
			d.state = Killed
		case "next":
			keys, reopened := d.m.Keys(), d.m.Reopened()
			d.m, d.state = Memory{}, Running
			d.m.Remember(keys)
			d.m.RememberReopened(reopened)
		default:
			d.now = d.now.Add(100 * time.Millisecond)
			var name string
			var step int
			if _, err := fmt.Sscanf(word, "%1s%d", &name, &step); err != nil {
				panic(err)
			}
			d.write(name, step)
			if strings.HasSuffix(word, "-") {
				continue
			}
		}
		if taken := d.look(); taken != nil {
			saves = append(saves, strings.Join(taken, "+"))
		}
	}
	return saves
}

// What belongs together is taken, and never files of two saves: m is written first, o after it, in
// each save that does not fail before.
func TestSavesThatFail(t *testing.T) {
	for _, c := range []struct{ name, story, want string }{
		{"none fails", "m1 o1 . m2 o2 m3 o3", "m1+o1 m2+o2 m3+o3"},
		{"one fails between its files", "m1 o1 . m2 m3 o3 m4 o4", "m1+o1 m3+o3 m4+o4"},
		{"two fail, and two of the next", "m1 o1 . m2 m3 m4 o4 m5 m6 m7 o7", "m1+o1 m4+o4 m7+o7"},
		{"counts that have a common divisor", "m1 o1 . m2- m3- m4- o4- m5- o5- m6- o6- m7 o7", "m1+o1 m7+o7"},
		{"none fails, in another order", "m1 o1 . m2- o2- o3 m3", "m1+o1 m3+o3"},
		{"the first fails", "m1 m2 o2 m3 o3 . m4 o4", "m2 m3 m3+o3 m4+o4"},
		{"the first two fail", "m1 m2 . m3 o3 m4 o4 . m5 o5", "m2 m3 m4 m4+o4 m5+o5"},
		{"the first was taken alone", "m1 . o1 m2 o2 m3 o3", "m1 m2+o2 m3+o3"},
		{"the first was taken alone, and the second fails", "m1 . o1 m2 m3 o3 m4 o4", "m1 m3+o3 m4+o4"},
		{"a file comes late, and stays", "m1 . m2 b2 m3 m4 m5 m6 b6 m7", "m1 m2 m3 m4 m5 b2+m6 b6+m6 b6+m7"},
		{"a save of other files", "m1 . m2 n3 n4 n5 n6 n7", "m1 m2 m2+n6 m2+n7"},
		{"a file comes after the last save, and nothing more", "m1 . m2 . b2 . .", "m1 m2 b2+m2"},
		{"a file comes some time before the last save", "m1 . m2 . . b3 . m3", "m1 m2 m3"},
		{"a file comes before the last save", "m1 . m2 b3 m3 exit", "m1 m2 m3"},
		{"a file comes after the last save", "m1 . m2 m3 b3 exit", "m1 m2 m3 b3+m3"},
		{"the next workers are killed between two files", "m1 o1 . next m5 kill . .", "m1+o1"},
		{"the next workers are killed after one file", "m1 . next m5 kill", "m1 m5"},
		{"the next workers pause between two files", "m1 o1 . next m5 . . o5 .", "m1+o1 m5+o5"},
		{"a file fails alone", "m1 x1 . m2 x2 m3 x3 x4 m5 x5 m6 x6", "m1+x1 m2+x2 m3+x3 m5+x5 m6+x6"},
		{"a file fails alone three times", "m1 x1 . m2 x2 m3 x3 x4 x5 x6 m7 x7 m8 x8",
			"m1+x1 m2+x2 m3+x3 m7+x7 m8+x8"},
		{"the order changes", "m1 x1 o1 . m2 x2 o2 m3 x3 o3 x4 m4 o4 x5 m5 o5 x6 m6 o6 x7 m7 o7 x8 m8 o8",
			"m1+o1+x1 m2+o2+x2 m3+o3+x3 m7+o7+x7 m8+o8+x8"},
		{"two files fail alone", "m1 x1 o1 . m2 x2 o2 m3 x3 o3 x4 o4 m5 o5 m6 x6 o6 m7 x7 o7",
			"m1+o1+x1 m2+o2+x2 m3+o3+x3 m6+o6+x6 m7+o7+x7"},
		{"a file fails alone in the last save", "m1 x1 . m2 x2 m3 x3 x4 m5 exit", "m1+x1 m2+x2 m3+x3"},
		{"files are written in any order", "m1 x1 . m2 x2 x3 m3 m4 x4", "m1+x1 m2+x2 m3+x3 m4+x4"},
		{"the next workers write one of two files", "m1 o1 . next m5 . m6 m7 m8", "m1+o1 m8+o1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(newFolder().play(c.story), " "); got != c.want {
				t.Errorf("%s: %s, want %s", c.story, got, c.want)
			}
		})
	}
}

// A generation knows how often a save of the one before wrote each file: the first of two writes is
// none, and the second is not taken with the next save.
func TestHowOftenAFileIsWrittenIsRemembered(t *testing.T) {
	before, after := newFolder(), newFolder()
	before.play("m1 o1 o1 . m2 o2 o2")
	after.m.Remember(before.m.Keys())
	if got := strings.Join(after.play("m3 o3 o3 m4 o4 o4"), " "); got != "m3+o3 m4+o4" {
		t.Errorf("taken: %s; known: %v", got, before.m.Keys())
	}
}

// A generation that saves other files than the one before takes them when nothing else is written.
func TestTheNextGenerationSavesOtherFiles(t *testing.T) {
	d := newFolder()
	d.m.Remember([]string{"m"})
	if got := strings.Join(d.play("n1 . n2 . n3 . n4 . n5"), " "); got != "n4 n5" {
		t.Errorf("taken: %s", got)
	}
}

// A script saves up to four files in one order. Two saves fail before any of them, the pauses in a save
// and between saves are of any length, and so are those between looks. No files of two saves are taken
// together, and when saves do not fail any more, all of each is taken after a few.
func TestRandomSavesThatFail(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		if wrong := failingSaves(r, 1+r.IntN(4)); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// failingSaves plays 18 saves of n files, and says what is wrong.
func failingSaves(r *rand.Rand, n int) (wrong string) {
	pauses := []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 1500 * time.Millisecond,
		time.Minute}
	d, failed := newFolder(), 0
	var story, newest []string
	look := func() {
		taken := d.look()
		if taken == nil {
			return
		}
		newest = taken
		story = append(story, "("+strings.Join(taken, "+")+")")
		for _, name := range taken {
			if name[1:] != taken[0][1:] {
				wrong = fmt.Sprint("files of two saves: ", story)
			}
		}
	}
	for step := 1; step <= 18 && wrong == ""; step++ {
		writes := n
		if step <= 12 && failed < apartAfter-1 && r.IntN(3) == 0 {
			writes = r.IntN(n)
			failed++
		}
		for _, c := range "mosx"[:writes] {
			d.write(string(c), step)
			story = append(story, fmt.Sprintf("%c%d", c, step))
			if r.IntN(3) > 0 {
				look()
			}
			d.now = d.now.Add(pauses[r.IntN(len(pauses))])
		}
		look()
		d.now = d.now.Add(pauses[r.IntN(len(pauses))])
	}
	if wrong == "" && len(newest) != n {
		wrong = fmt.Sprintf("%d of %d files at the end: %v", len(newest), n, story)
	}
	return wrong
}

// After three saves a script has an order. Any of the files of a save fails alone then, but not in two saves
// in a row. No files of two saves are taken together, and a save after the one that failed is taken whole.
func TestRandomFilesThatFailAlone(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		n, d := 2+r.IntN(3), newFolder()
		for step := 1; step <= 12; step++ {
			fails := 0
			if step > 4 && step%2 == 0 {
				fails = r.IntN(1 << n)
			}
			var taken []string
			for i := range n {
				if fails>>i&1 == 0 {
					d.write(string(rune('a'+i)), step)
				}
				d.now = d.now.Add(50 * time.Millisecond)
				if step <= 4 && i < n-1 || r.IntN(2) == 0 {
					continue
				}
				if all := d.look(); all != nil {
					taken = all
				}
			}
			d.now = d.now.Add(2 * time.Second)
			if all := d.look(); all != nil {
				taken = all
			}
			for _, name := range taken {
				if !strings.HasSuffix(name, fmt.Sprint(taken[0][1:])) || len(taken) != n {
					t.Fatalf("seed %d: %v in save %d of %d files", seed, taken, step, n)
				}
			}
			if fails == 0 && taken == nil {
				t.Fatalf("seed %d: save %d is not taken: %+v", seed, step, d.last)
			}
		}
	}
}

// Workers that began from a checkpoint write one of two files that count steps, and fail at the other
// one. That the next step has begun does not make a save of the one file, until others were written too.
func TestTheNextStepBesideAFileThatStays(t *testing.T) {
	for passes := range apartAfter + 2 {
		var m Memory
		m.Remember(nil)
		file := func(key string, n int64) Unit {
			return Unit{Path: fmt.Sprint(key, n), Key: key, Counted: true, Number: n, Status: Done, Passes: 1}
		}
		wrote, next, stays := file("m", 10), file("m", 12), file("o", 5)
		wrote.Fresh, wrote.Passes, next.Fresh, next.Status, stays.InLast = true, passes, true, Busy, true
		d := m.Decide(Look{Units: []Unit{wrote, next, stays}, Now: epoch.Add(time.Second), Began: epoch})
		if taken := d.Take != nil; taken != (passes > apartAfter) {
			t.Errorf("after %d steps: taken %v, %s %s", passes, taken, d.Path, d.Why)
		}
	}
}

// A file that no save had comes after the last one. Its name says of which step it is.
func TestANewFileCountsItsStep(t *testing.T) {
	for step, want := range map[int64]bool{13: false, 15: true} {
		var m Memory
		m.Remember([]string{"m"})
		model := Unit{Path: "m15", Key: "m", Counted: true, Number: 15,
			Status: Done, Passes: 1, Fresh: true, Since: epoch}
		look := Look{Units: []Unit{model}, Began: epoch, Now: epoch.Add(time.Second)}
		m.Taken(m.Decide(look))
		look.Units[0].Fresh, look.Units[0].InLast, look.Now = false, true, epoch.Add(time.Minute)
		look.Units = append(look.Units, Unit{Path: fmt.Sprint("o", step), Key: "o", Counted: true, Number: step,
			Status: Done, Passes: 1, Fresh: true, Since: epoch.Add(time.Second)})
		if d := m.Decide(look); (d.Take != nil) != want {
			t.Errorf("step %d beside step 15: %+v", step, d)
		}
	}
}
