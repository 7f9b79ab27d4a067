package logs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var began = time.UnixMilli(1_795_000_000_000)

// written is a log of ten bytes a line, whose lines are written at some seconds after began.
type written struct {
	t    *testing.T
	path string
	x    LineIndex
	f    *os.File
	size int64
}

func writeLines(t *testing.T) *written {
	t.Helper()
	w := &written{t: t, path: filepath.Join(t.TempDir(), "workerlog.0")}
	w.begin()
	t.Cleanup(func() { w.x.Close(); w.f.Close() })
	return w
}

func (w *written) begin() {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	w.f, w.size = f, 0
}

// lines writes a line at each of the times.
func (w *written) lines(at ...time.Duration) {
	w.t.Helper()
	for _, d := range at {
		w.x.Mark(w.path, w.size, began.Add(d))
		if _, err := fmt.Fprintf(w.f, "%9d\n", w.size); err != nil {
			w.t.Fatal(err)
		}
		w.size += 10
	}
}

// at returns the times of all lines, in seconds after began.
func at(times *LineTimes, lines int) string {
	var all []string
	for i := range lines {
		text := "-"
		if t := times.At(int64(10 * i)); !t.IsZero() {
			text = fmt.Sprint(t.Sub(began).Seconds())
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func (w *written) want(want string) {
	w.t.Helper()
	times := TimesOf(w.f)
	defer times.Close()
	if got := at(times, int(w.size/10)); got != want {
		w.t.Errorf("%s, want %s", got, want)
	}
}

const s = time.Second

// The time of a line is that of the newest mark before it, and marks are at least a second apart.
func TestMarks(t *testing.T) {
	t.Parallel()
	w := writeLines(t)
	w.lines(0, s/2, s-1, s, 3*s/2, 10*s, 11*s)
	w.want("0 0 0 1 1 10 11")
	if info, err := os.Stat(TimesPath(w.path)); err != nil || info.Size() != 4*size || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	w.lines(4*s, 4*s+s/2) // the clock was set back
	w.want("0 0 0 1 1 10 11 4 4")
}

// A writer that begins anew goes on with the index of the one before.
func TestASecondWriter(t *testing.T) {
	t.Parallel()
	w := writeLines(t)
	w.lines(0, 5*s)
	w.x.Close()
	if err := os.WriteFile(TimesPath(w.path), append(encode(encode(nil, LineMark{0, began}), LineMark{10, began.Add(5 * s)}),
		"cut off"...), 0o600); err != nil {
		t.Fatal(err)
	}
	w.lines(5*s+s/2, 7*s)
	w.want("0 5 5.5 7")
}

func TestALogThatWasEmptied(t *testing.T) {
	t.Parallel()
	w := writeLines(t)
	w.lines(0, 5*s, 6*s)
	if err := w.f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	w.size = 0
	w.lines(6*s+s/2, 8*s)
	w.want("6.5 8")
}

// A reader has the times of lines that come later, also after a rotation.
func TestReaderThatFollows(t *testing.T) {
	t.Parallel()
	w := writeLines(t)
	old, err := os.Open(w.path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	times := TimesOf(old)
	defer times.Close()
	w.lines(0)
	at(times, 1)
	w.lines(100 * s)
	if got := at(times, 2); got != "0 100" {
		t.Error(got)
	}
	w.lines(200 * s)
	w.f.Close()
	w.x.Close()
	if err := os.Rename(w.path, w.path+".1"); err != nil {
		t.Fatal(err)
	}
	late := TimesOf(old) // reads for the first time when another log has the name
	defer late.Close()
	if err := RenameTimes(w.path, w.path+".1"); err != nil {
		t.Fatal(err)
	}
	w.begin()
	w.lines(300 * s)
	if got := at(times, 3); got != "0 100 200" {
		t.Error(got)
	}
	if got := at(late, 3); got != "- - -" {
		t.Errorf("times of another log: %s", got)
	}
	w.want("300")
	if err := RenameTimes(w.path+".7", w.path+".8"); err != nil {
		t.Error(err)
	}
}

// An index stays small, and keeps times of the whole log.
func TestIndexIsBounded(t *testing.T) {
	t.Parallel()
	w := writeLines(t)
	day, step := 24*time.Hour, 600*time.Millisecond
	for d := time.Duration(0); d < 2*day; d += step {
		w.x.Mark(w.path, w.size, began.Add(d))
		w.size += 10
	}
	if err := w.f.Truncate(w.size); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(TimesPath(w.path))
	if err != nil || info.Size() > most*size || info.Size() < most/4*size {
		t.Errorf("%v %v", info, err)
	}
	times := TimesOf(w.f)
	defer times.Close()
	for range 1000 {
		i := rand.Int64N(w.size / 10)
		late := began.Add(time.Duration(i) * step).Sub(times.At(10 * i))
		if late < 0 || late > 2*2*day/(most/2)+s {
			t.Fatalf("line %d: %v too early", i, late)
		}
	}
}

// What is no index gives no times, and a link in its place is not written to.
func TestWhatIsNoIndex(t *testing.T) {
	t.Parallel()
	w := writeLines(t)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, TimesPath(w.path)); err != nil {
		t.Fatal(err)
	}
	w.lines(0, 5*s)
	if got, err := os.ReadFile(other); err != nil || string(got) != "precious" {
		t.Errorf("%q %v", got, err)
	}
	w.want("- -")
	if err := os.Remove(TimesPath(w.path)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "short", strings.Repeat("\xff", 64)} {
		if err := os.WriteFile(TimesPath(w.path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.want("- -")
	}
}
