package node

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
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
	tail := progressTail{path: path, at: lengthOf(path), expression: regexp.MustCompile(`step (?P<step>\d+).*?loss (?P<loss>\S+)`)}
	write("epoch 1\nstep 10 loss 0.5\nsaved\n")
	if p, ok := tail.read(); !ok || *p.Step != 10 || *p.Loss != .5 || tail.nan {
		t.Errorf("%+v, %v", p, ok)
	}
	write("step 11 loss 0.4\rstep 12 loss 0.3\rstep 13 loss nan\n")
	if p, ok := tail.read(); !ok || *p.Step != 13 || !tail.nan {
		t.Errorf("%+v, %v", p, ok)
	}
	write("nothing of interest\n")
	if p, ok := tail.read(); ok {
		t.Errorf("%+v", p)
	}
	if err := os.Truncate(path, 0); err != nil { // it was rotated
		t.Fatal(err)
	}
	write("step 14 loss 0.2\n")
	if p, ok := tail.read(); !ok || *p.Step != 14 {
		t.Errorf("%+v, %v", p, ok)
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
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "progress.jsonl"), []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		tail := progressTail{path: filepath.Join(dir, "progress.jsonl")}
		p, ok := tail.read()
		if !ok || p.Step == nil || *p.Step != want.step || tail.nan != want.nan || (p.Loss == nil) != (want.loss == 0) ||
			p.Loss != nil && *p.Loss != want.loss {
			t.Errorf("%s: %+v, not a number: %v, read: %v", line, p, tail.nan, ok)
		}
		step, nan := lastTold(dir)
		if step == nil || *step != want.step || nan != want.nan {
			t.Errorf("%s: the last step is %v, not a number: %v", line, step, nan)
		}
	}
}
