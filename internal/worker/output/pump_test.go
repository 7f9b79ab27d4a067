package output

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// slow takes its time for each piece.
type slow struct {
	each time.Duration
	n    int
}

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(s.each)
	s.n += len(p)
	return len(p), nil
}

// A console that keeps up on the whole loses nothing in a burst that is longer
// than the queue; one that does not costs the worker no more than its patience.
func TestSlowConsole(t *testing.T) {
	t.Parallel()
	const pieces = 2 * consoleQueue / Chunk
	for each, whole := range map[time.Duration]bool{
		consolePatience / pieces: true,
		consolePatience / 10:     false,
	} {
		synctest.Test(t, func(t *testing.T) {
			var notices []string
			to := &slow{each: each}
			c := newConsole(to, func(s string) { notices = append(notices, s) })
			began := time.Now()
			for range pieces {
				c.show(make([]byte, Chunk))
			}
			if took := time.Since(began); took > consolePatience {
				t.Errorf("%v for each: the worker was held for %v", each, took)
			}
			if err := c.close(context.Background()); err != nil {
				t.Fatal(err)
			}
			if (to.n == pieces*Chunk) != whole || (len(notices) == 0) != whole {
				t.Errorf("%v for each: %d of %d bytes, %q", each, to.n, pieces*Chunk, notices)
			}
		})
	}
}

func TestMarkedKeepsLinesWhole(t *testing.T) {
	t.Parallel()
	p := &Pump{prefix: "> "}
	got := ""
	for _, piece := range []string{"10%\r20%", "\r30%\r\n", "done\n", "\n", "end"} {
		got += string(p.withPrefix([]byte(piece)))
	}
	if want := "> 10%\r> 20%\r> 30%\r\n> done\n> \n> end"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A file that cannot be spliced to, as on some file systems, gets the same
// bytes.
func TestWithoutSplice(t *testing.T) {
	t.Parallel()
	l := newLogFile(filepath.Join(t.TempDir(), "log"), 1<<20, 0, func(s string) { t.Error(s) })
	defer l.close()
	l.begin("header\n")
	if _, err := unix.FcntlInt(l.f.Fd(), unix.F_SETFL, unix.O_APPEND); err != nil { // EINVAL from splice
		t.Fatal(err)
	}
	p := &Pump{Of: Both, Log: l}
	write, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	p.Start()
	text := strings.Repeat("one line\n", 50000)
	if _, err := write.WriteString(text); err != nil {
		t.Fatal(err)
	}
	write.Close()
	<-p.done
	if got, err := os.ReadFile(l.Path); err != nil || string(got) != "header\n"+text {
		t.Error("log differs", err)
	}
	if got := p.Settle(); string(got) != text[len(text)-tailBytes:] {
		t.Errorf("the tail has %d bytes: %.40q", len(got), got)
	}
}

func TestLines(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []string
		want   []string
	}{
		"in pieces":         {[]string{"a", "b\nc", "\n"}, []string{"ab\n", "c\n"}},
		"a carriage return": {[]string{"1%\r2%\r\nx\n"}, []string{"1%\r", "2%\r\n", "x\n"}},
		"no end":            {[]string{"a\nb"}, []string{"a\n", "b"}},
		"nothing":           {nil, nil},
		"too long": {[]string{strings.Repeat("x", longestPart), "y\n"},
			[]string{strings.Repeat("x", longestPart), "y\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			var l lines
			var got []string
			each := func(b []byte) { got = append(got, string(b)) }
			for _, p := range c.pieces {
				l.add([]byte(p), each)
			}
			l.end(each)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}
