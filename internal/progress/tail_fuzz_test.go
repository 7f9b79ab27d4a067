package progress

import (
	"math"
	"regexp"
	"testing"
)

// FuzzProgress reads any line that a worker may write as its progress, as JSON and with an
// expression for its log. What is taken can be reported: it has a form in JSON.
func FuzzProgress(f *testing.F) {
	for _, l := range []string{`{"step":7,"loss":0.5,"samples":70}`, `{"loss":NaN}`,
		`{"loss":"-Infinity","step":-1}`, "step 10 loss nan",
		`{"step":1e999}`, "step 99999999999999999999 loss 1e999", `{"step":null}`, "[]", "\x00\xff"} {
		f.Add([]byte(l))
	}
	expression := regexp.MustCompile(`step (?P<step>\d+).*?loss (?P<loss>\S+)(?: samples (?P<samples>\S+))?`)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, e := range []*regexp.Regexp{nil, expression} {
			tail := Tail{expression: e}
			tail.take(text)
			if l := tail.last.Loss; l != nil && (math.IsNaN(*l) || math.IsInf(*l, 0)) {
				t.Errorf("%q has loss %v", text, *l)
			}
		}
	})
}
