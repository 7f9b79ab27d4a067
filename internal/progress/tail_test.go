package progress

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// A program that prints how far it is tells it by an expression.
func TestProgressInALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workerlog.0")
	write := func(text string) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write("step 1 loss 9.0 of the generation before\n")
	tail := Tail{path: path, at: lengthOf(path),
		expression: regexp.MustCompile(`step (?P<step>\d+).*?loss (?P<loss>\S+)`)}
	write("epoch 1\nstep 10 loss 0.5\nsaved\n")
	if p, ok := tail.Read(); !ok || *p.Step != 10 || *p.Loss != .5 || tail.nan {
		t.Errorf("%+v, %v", p, ok)
	}
	write("step 11 loss 0.4\rstep 12 loss 0.3\rstep 13 loss nan\n")
	if p, ok := tail.Read(); !ok || *p.Step != 13 || !tail.nan {
		t.Errorf("%+v, %v", p, ok)
	}
	write("nothing of interest\n")
	if p, ok := tail.Read(); ok {
		t.Errorf("%+v", p)
	}
	if err := os.Truncate(path, 0); err != nil { // it was rotated
		t.Fatal(err)
	}
	write("step 14 loss 0.2\n")
	if p, ok := tail.Read(); !ok || *p.Step != 14 {
		t.Errorf("%+v, %v", p, ok)
	}
}

// The end of a first step is that of the generation at hand: not one of before it began, and none to come.
func TestWhenAFirstStepEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.jsonl")
	tail := NewTail(path)
	tail.began = time.Now().Add(-time.Minute)
	unix := func(d time.Duration) float64 { return float64(tail.began.Add(d).UnixMicro()) / 1e6 }
	for _, c := range []struct {
		first float64
		want  time.Duration // after the generation began; 0: not known
	}{{unix(-time.Second), 0}, {unix(time.Hour), 0}, {1e300, 0}, {unix(2 * time.Second), 2 * time.Second}} {
		line := fmt.Sprintf(`{"step":7,"first":%f}`+"\n", c.first)
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		tail.at = 0
		p, ok := tail.Read()
		switch got := p.First; {
		case !ok || (got == nil) != (c.want == 0):
			t.Errorf("first %f: %v", c.first, got)
		case got != nil && got.Sub(tail.began).Round(time.Millisecond) != c.want:
			t.Errorf("first %f: %s after the generation began, want %s", c.first, got.Sub(tail.began), c.want)
		}
	}
}

// The step before it ended before the generation began.
func TestWhenTheStepBeforeEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.jsonl")
	tail := NewTail(path)
	for after, known := range map[time.Duration]bool{-time.Second: true, time.Second: false} {
		tail.began, tail.at, tail.last = time.Now().Add(-time.Minute), 0, rendezvous.Progress{}
		before := tail.began.Add(after)
		line := fmt.Sprintf(`{"step":7,"before":%f}`+"\n", float64(before.UnixMicro())/1e6)
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		p, _ := tail.Read()
		if (p.Before != nil) != known || known && p.Before.Sub(before).Abs() > time.Millisecond {
			t.Errorf("a step that ended %s after the generation began: %v", after, p.Before)
		}
	}
}

// What programs write for a loss that is not a finite number is understood, whatever JSON says.
func TestLossesThatAreNotNumbers(t *testing.T) {
	for line, want := range map[string]struct {
		step int64
		nan  bool
		loss float64 // 0: none
	}{
		`{"step":7,"loss":0.5,"samples":14}`: {7, false, .5},
		`{"step": 7, "loss": NaN}`:           {7, true, 0},
		`{"step":7,"loss":-Infinity}`:        {7, true, 0},
		`{"loss":Infinity,"step":7}`:         {7, true, 0},
		`{"step":7,"loss":"nan"}`:            {7, true, 0},
		`{"step":7,"loss":null}`:             {7, false, 0},
		`{"step":7,"note":"loss: NaN"}`:      {7, false, 0},
		`{"step":7.0,"loss":"none yet"}`:     {7, false, 0}, // the rest of the line counts
		`{"step":7,"loss":[1,2]}`:            {7, false, 0},
		`{"step":7,"samples":"many"}`:        {7, false, 0},
		`{"step":7,"loss":1e999}`:            {7, true, 0},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "progress.jsonl"), []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		tail := Tail{path: filepath.Join(dir, "progress.jsonl")}
		p, ok := tail.Read()
		if !ok || p.Step == nil || *p.Step != want.step || tail.nan != want.nan ||
			(p.Loss == nil) != (want.loss == 0) ||
			p.Loss != nil && *p.Loss != want.loss {
			t.Errorf("%s: %+v, not a number: %v, read: %v", line, p, tail.nan, ok)
		}
	}
}

// A loss that is not a number is known by its step, although later ones are numbers again.
func TestFirstLossThatIsNotANumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.jsonl")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	older := `{"step":2,"loss":NaN}` + "\n"
	write(older)
	tail := NewJSONTail(path)
	tail.Read()
	if _, seen := tail.LossNaN(); seen {
		t.Error("the loss of an earlier generation counts")
	}
	write(older + `{"step":3,"loss":NaN}
{"step":4,"loss":Infinity}
{"step":5,"loss":0.5}
`)
	p, _ := tail.Read()
	if step, seen := tail.LossNaN(); !seen || step == nil || *step != 3 {
		t.Errorf("step %v, seen: %v", step, seen)
	}
	if p.Loss == nil || *p.Loss != 0.5 || *p.Step != 5 {
		t.Errorf("the newest line is lost: %+v", p)
	}
}

// How much is left is known from the total of samples, or of steps where no samples are reported.
func TestWhatIsLeft(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	second := func(n float64) *rendezvous.Seconds { return new(rendezvous.Seconds(n * float64(time.Second))) }
	for name, c := range map[string]struct {
		lines [2]string // ten seconds apart
		done  *float64
		left  *rendezvous.Seconds
	}{
		"samples": {[2]string{`{"samples":100,"total_samples":1000}`, `{"samples":600}`}, new(0.6),
			second(8)},
		"steps": {[2]string{`{"step":10,"total_steps":40}`, `{"step":20}`}, new(0.5), second(20)},
		"both": {[2]string{`{"step":10,"samples":100,"total_steps":40}`,
			`{"step":20,"samples":600,"total_samples":1000}`}, new(0.6), second(8)},
		"no total": {[2]string{`{"step":10,"samples":100}`, `{"step":20,"samples":600}`}, nil, nil},
		"nothing moves": {[2]string{`{"samples":500,"total_samples":1000}`, `{"samples":500}`}, new(0.5),
			nil},
		"more than the total": {[2]string{`{"samples":500,"total_samples":1000}`, `{"samples":1500}`},
			new(1.0), second(0)},
		"a total that is none": {[2]string{`{"samples":500,"total_samples":0}`,
			`{"samples":600,"total_samples":-1}`},
			nil, nil},
	} {
		path := filepath.Join(t.TempDir(), "progress.jsonl")
		tail := Tail{path: path}
		var p rendezvous.Progress
		for i, l := range c.lines {
			if err := os.WriteFile(path,
				[]byte(strings.Join(c.lines[:i], "\n")+strings.Repeat("\n", i)+l+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			at := start.Add(time.Duration(i) * 10 * time.Second)
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
			p, _ = tail.Read()
		}
		if !reflect.DeepEqual(p.Done, c.done) || !reflect.DeepEqual(p.Left, c.left) {
			t.Errorf("%s: %s", name, schema.Encode(p))
		}
	}
}
