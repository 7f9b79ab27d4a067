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

// Saves that follow each other soon are taken, all but the first ones: those that close a file twice when they
// are through with it, those that close it once at once.
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
