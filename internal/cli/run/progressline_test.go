package run

import (
	"math"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

func TestProgressLine(t *testing.T) {
	whole := rendezvous.Progress{Step: new(int64(131)), Loss: new(0.41321), SamplesPerSecond: new(870.5),
		Done: new(0.26),
		Left: new(rendezvous.Seconds(312 * time.Second))}
	for name, c := range map[string]struct {
		p       rendezvous.Progress
		columns int
		want    string
	}{
		"80 columns": {whole, 80,
			"[#####----------------]   26%  step 131  loss 0.4132  5m12s left  870 samples/s"},
		"wide": {whole, 200,
			"[######------------------]   26%  step 131  loss 0.4132  5m12s left  870 samples/s"},
		"narrow":           {whole, 60, " 26%  step 131  loss 0.4132  5m12s left  870 samples/s"},
		"narrower":         {whole, 40, " 26%  step 131  loss 0.4132  5m12s left"},
		"no room":          {whole, 3, ""},
		"nothing is known": {rendezvous.Progress{}, 80, ""},
		"no end is known": {rendezvous.Progress{Step: new(int64(7)), Loss: new(1e-9)}, 80,
			"step 7  loss 1e-09"},
		"through": {rendezvous.Progress{Done: new(1.0), Left: new(rendezvous.Seconds(0))}, 30,
			"[############]  100%  0s left"},
		"beyond what was to": {rendezvous.Progress{Done: new(1.7)}, 20, "[###########]  100%"},
		"huge figures": {rendezvous.Progress{Step: new(int64(math.MaxInt64)), Loss: new(-1.23456e300),
			Done: new(0.5), SamplesPerSecond: new(1e15),
			Left: new(rendezvous.Seconds(1 << 62))}, 80,
			"[###----]   50%  step 9223372036854775807  loss -1.235e+300  more than 99d left"},
	} {
		got := progressLine(c.p, c.columns)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if len(got) >= c.columns {
			t.Errorf("%s: %d columns of %d", name, len(got), c.columns)
		}
	}
}
