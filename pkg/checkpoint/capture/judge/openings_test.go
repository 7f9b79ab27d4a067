package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A save closes a file twice: m10 is the body of the first one, and m11 is that with its header. Saves that
// close it once are m1, m2.
func TestSavesThatOpenAFileAgain(t *testing.T) {
	for _, c := range []struct{ name, story, want string }{
		{"each save", "m10 m11 . . . m20 m21 . . . m30 m31 .", "m11 m21 m31"},
		{"each save, with a pause", "m10 m11 . . . m20 _ _ _ _ _ _ m21 . .", "m11 m21"},
		{"two files", "m10 m11 o10 o11 . . . m20 m21 o20 o21 . .", "m11+o11 m21+o21"},
		{"two files in turn", "m10 o10 m11 o11 . . . m20 o20 _ m21 o21 . .", "m11+o11 m21+o21"},
		{"the first save is killed between", "m10 kill", ""},
		{"the second save is killed between", "m10 m11 . . . m20 kill . . .", "m11"},
		{"the second save is killed a moment later", "m10 m11 . . . m20 m21 kill", "m11"},
		{"the workers end by themselves", "m10 m11 . . . m20 m21 exit", "m11 m21"},
		{"the next workers know it", "m10 m11 . . . m20 m21 . . next m30 m31 . .", "m11 m21 m31"},
		{"the next workers know it, and are killed", "m10 m11 . . . m20 m21 . . next m30 kill", "m11 m21"},
		{"some saves after others", "m1 . . . m20 m21 . . . m30 m31 . . . m40 m41 . .",
			"m1 m20 m21 m30 m31 m41"},
		{"none, and two follow each other soon", "m1 . . . m2 m3 . . . m4 . . . m5", "m1 m2 m3 m4 m5"},
		{"none, but the first two follow each other soon", "m1 m2 . . . m3 . . m4 . . m5 . . m6 kill",
			"m2 m3 m4 m5 m6"},
		{"none, and a killed worker has saved", "m1 . . . m2- kill", "m1 m2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newFolder()
			d.opaque = true
			if got := strings.Join(d.play(c.story), " "); got != c.want {
				t.Errorf("%s: %s, want %s; %+v", c.story, got, c.want, d.last)
			}
		})
	}
}

// Saves that follow each other soon are taken, all but the first ones. A save that closes a file twice
// is taken when it is through with the file, one that closes it once is taken at once.
func TestSavesThatFollowEachOtherSoon(t *testing.T) {
	for _, save := range []string{"m%[1]d0 _ m%[1]d1 _ _ _ _ _ _", "m%[1]d0 m%[1]d1 _ _ _ _",
		"m%[1]d1 _ _ _ _", "m%[1]d1 _"} {
		d := newFolder()
		d.opaque = true
		var story strings.Builder
		const saves = 30
		for step := 1; step <= saves; step++ {
			fmt.Fprintf(&story, save+" ", step)
		}
		taken := d.play(story.String())
		for _, name := range taken {
			if !strings.HasSuffix(name, "1") {
				t.Errorf("%s: %s is not whole: %v", save, name, taken)
			}
		}
		if len(taken) < saves-12 || taken[len(taken)-1] != fmt.Sprintf("m%d1", saves) {
			t.Errorf("%s: %d saves are taken: %v", save, len(taken), taken)
		}
	}
}

// Looks may be seldom: then both closings of a save come in one look, or the second one long after the first.
func TestSavesThatOpenAFileAgainBetweenLooks(t *testing.T) {
	for _, every := range []time.Duration{100, 250, 400, 550} {
		d := newFolder()
		d.opaque = true
		start, next := d.now, d.now
		var taken []string
		const saves = 40
		do := func(at time.Duration, name string, step int) {
			for ; next.Before(start.Add(at)); next = next.Add(every * time.Millisecond) {
				d.now = next
				taken = append(taken, d.look()...)
			}
			if d.now = start.Add(at); name != "" {
				d.write(name, step)
			}
		}
		for step := range saves {
			at := time.Duration(step+1) * 1600 * time.Millisecond
			do(at, "m", 10*step)
			do(at+150*time.Millisecond, "m", 10*step+1)
		}
		do((saves+1)*1600*time.Millisecond, "", 0)
		for _, name := range taken {
			if !strings.HasSuffix(name, "1") {
				t.Errorf("a look each %d ms: %s is not whole: %v", every, name, taken)
			}
		}
		if len(taken) < saves-2 {
			t.Errorf("a look each %d ms: %d saves are taken: %v", every, len(taken), taken)
		}
	}
}

// write is a file that a script writes.
type write struct {
	at   time.Duration
	name string
	step int
}

// played returns what looks at equal distances take.
func (d *folder) played(every, until time.Duration, writes ...write) (taken []string) {
	start, next := d.now, d.now
	looks := func(to time.Duration) {
		for ; next.Before(start.Add(to)); next = next.Add(every) {
			d.now = next
			if got := d.look(); got != nil {
				taken = append(taken, strings.Join(got, "+"))
			}
		}
		d.now = start.Add(to)
	}
	for _, w := range writes {
		looks(w.at)
		d.write(w.name, w.step)
	}
	looks(until)
	return taken
}

// A new file is opened twice. It waits, and the save after it is taken without it. It is not of that save
// because it comes before it.
func TestNewFileThatIsOpenedAgain(t *testing.T) {
	d := newFolder()
	d.opaque = true
	got := d.played(100*time.Millisecond, 20*time.Second, write{2 * time.Second, "m", 1},
		write{5 * time.Second, "m", 2}, write{8 * time.Second, "m", 3}, write{10 * time.Second, "b", 30},
		write{10150 * time.Millisecond, "b", 31}, write{10700 * time.Millisecond, "m", 4})
	for _, save := range got {
		if strings.Contains(save, "b31+m4") || strings.Contains(save, "b30+m4") {
			t.Errorf("mixed: %v", got)
		}
	}
}

// The workers of the next generation pause in their first save for longer than a tenth of the time before it.
// They are known to open the file twice.
func TestFirstSaveOfAGenerationThatKnowsItsSaves(t *testing.T) {
	d := newFolder()
	d.opaque = true
	var writes []write
	for k := 1; k <= 5; k++ {
		at := time.Duration(k) * time.Minute
		writes = append(writes, write{at, "m", 10 * k}, write{at + 4*time.Second, "m", 10*k + 1})
	}
	d.played(200*time.Millisecond, 330*time.Second, writes...)
	n := newFolder()
	n.opaque = true
	n.m.Remember(d.m.Keys())
	n.m.RememberReopened(d.m.Reopened())
	n.files["m"] = &file{step: 51, in: true}
	got := n.played(200*time.Millisecond, 40*time.Second, write{15 * time.Second, "m", 60},
		write{19 * time.Second, "m", 61})
	if strings.Contains(strings.Join(got, " "), "m60") {
		t.Errorf("the body alone is taken: %v", got)
	}
}
