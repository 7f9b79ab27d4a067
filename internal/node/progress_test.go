package node

import (
	"os"
	"path/filepath"
	"testing"
)

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
