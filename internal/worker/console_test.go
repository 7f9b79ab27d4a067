package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/worker/output"
)

func TestStreamsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var console bytes.Buffer
	s := logged(t, 2, `j=0; while test $j -lt 2000; do echo $j; j=$((j+1)); echo $j >&2; j=$((j+1)); done`,
		output.Options{Console: &console,
			Show: func(r int) output.Std { return []output.Std{output.Both, output.None}[r] }})
	runToEnd(t, s)
	want := seq(0, 1999)
	for r := range 2 {
		if body(read(t, s.Logs.Path(r))) != want {
			t.Errorf("log %d differs", r)
		}
	}
	s.Logs.Close(deadline(t))
	if console.String() != want {
		t.Errorf("console differs: %q", console.String())
	}
}

// Lines of several workers are not cut by each other, however they are written.
func TestWholeLinesOfSeveralWorkers(t *testing.T) {
	t.Parallel()
	var console bytes.Buffer
	s := logged(t, 3,
		`j=0; while test $j -lt 300; do printf "worker $i"; printf " line $j\n"; j=$((j+1)); done
		printf "end of $i"`,
		output.Options{Console: &console, Show: func(int) output.Std { return output.Both }})
	runToEnd(t, s)
	s.Logs.Close(deadline(t))
	line := regexp.MustCompile(`(?m)^(end of \d)*worker \d line \d+$`)
	if n := len(line.FindAllString(console.String(), -1)); n != 900 {
		t.Errorf("%d whole lines, want 900", n)
	}
	for i := range 3 {
		if !strings.Contains(console.String(), fmt.Sprintf("end of %d", i)) {
			t.Errorf("the last words of worker %d are missing", i)
		}
	}
}

func TestOneStreamOnTheConsole(t *testing.T) {
	t.Parallel()
	var console bytes.Buffer
	s := logged(t, 2, `echo out $i; echo err $i >&2; echo out $i`,
		output.Options{Console: &console,
			Show: func(r int) output.Std { return []output.Std{output.Err, output.Out}[r] }})
	g := begin(t, s)
	for i, e := range exitsOf(t, g) {
		if want := fmt.Sprintf("err %d\n", i); string(e.Tail) != want {
			t.Errorf("tail %q, want %q", e.Tail, want)
		}
	}
	<-g.Done()
	s.Logs.Close(deadline(t))
	got := strings.Split(strings.TrimSpace(console.String()), "\n")
	if len(got) != 3 || strings.Count(console.String(), "err 0\n") != 1 ||
		strings.Count(console.String(), "out 1\n") != 2 {
		t.Errorf("console: %q", got)
	}
	for r := range 2 {
		log := body(read(t, s.Logs.Path(r)))
		if strings.Count(log, "out") != 2 || strings.Count(log, "err") != 1 {
			t.Errorf("log %d: %q", r, log)
		}
	}
}

// A console that takes nothing: worker and log go on, and the gap is reported when
// it is over.
func TestBlockedConsole(t *testing.T) {
	t.Parallel()
	var w words
	reader, writer := io.Pipe()
	const size = 48 << 20 // more than the queue of the console takes
	s := logged(t, 1, fmt.Sprintf(
		`head -c %d /dev/zero | tr '\0' x; echo; echo > written; read x < fifo; echo after`, size),
		output.Options{Notice: w.notice, Console: writer, Show: func(int) output.Std { return output.Both }})
	open := gate(t, s, "fifo")
	g := begin(t, s)
	eventually(t, "worker is not stalled",
		func() bool { _, err := os.Stat(s.Dir + "/written"); return err == nil })
	eventually(t, "log is whole", func() bool {
		info, err := os.Stat(s.Logs.Path(0))
		return err == nil && info.Size() > size
	})
	if log := body(read(t, s.Logs.Path(0))); len(log) != size+1 {
		t.Errorf("log has %d bytes", len(log))
	}
	if said := w.all(); len(said) > 0 {
		t.Errorf("reported too early: %q", said)
	}
	shown := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(reader)
		shown <- b
	}()
	eventually(t, "notice", func() bool { return len(w.all()) == 1 })
	open()
	<-g.Done()
	s.Logs.Close(deadline(t))
	writer.Close()
	got := <-shown
	var missing int
	if _, err := fmt.Sscanf(w.all()[0], "%d bytes", &missing); err != nil {
		t.Fatal(w.all())
	}
	if len(got)+missing != size+1+len("after\n") || !bytes.HasSuffix(got, []byte("after\n")) {
		t.Errorf("%d shown, %d missing, of %d", len(got), missing, size+1)
	}
}

func TestBlockedConsoleDoesNotHoldTheEnd(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	s := logged(t, 1, `echo up`,
		output.Options{Console: writer, Show: func(int) output.Std { return output.Both }})
	runToEnd(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Logs.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	reader.Close()
}

func TestLostConsole(t *testing.T) {
	t.Parallel()
	var w words
	reader, writer := io.Pipe()
	reader.Close()
	s := logged(t, 1, `echo one; sleep 0.01; echo two`, output.Options{Notice: w.notice, Console: writer,
		Show: func(int) output.Std { return output.Both }})
	runToEnd(t, s)
	if err := s.Logs.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := body(read(t, s.Logs.Path(0))); got != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
	if len(w.all()) != 1 {
		t.Errorf("%q", w.all())
	}
}
