package progress

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// line is one line of $ELASTIC_PROGRESS_FILE. All fields are optional.
type line struct {
	Step, Samples *int64
	Loss          *float64 // any number, also one that is not finite
	First         *float64 // end of the generation's first step, in seconds of Unix time
	Before        *float64 // end of the last step in an older generation
	// Of the whole training. One of the two is enough.
	TotalSteps, TotalSamples *int64
}

// notFinite matches the words of Python's json for numbers that JSON does not have.
var notFinite = regexp.MustCompile(`"loss"\s*:\s*(-?Infinity|NaN)\b`)

// jsonLine reads the fields of an object one by one: one that is not readable counts as not there.
func jsonLine(b []byte) (l line, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(notFinite.ReplaceAll(b, []byte(`"loss":"$1"`)), &fields) != nil {
		return l, false
	}
	number := func(name string) *float64 {
		v, err := strconv.ParseFloat(strings.Trim(string(fields[name]), `"`), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil
		}
		return &v
	}
	l = line{Step: whole(number("step")), Samples: whole(number("samples")), Loss: number("loss"),
		First: number("first"), Before: number("before"),
		TotalSteps: whole(number("total_steps")), TotalSamples: whole(number("total_samples"))}
	return l, true
}

// whole returns a whole number that is no more than v; nil: v is none.
func whole(v *float64) *int64 {
	if v == nil || math.IsNaN(*v) || math.Abs(*v) > 1<<53 {
		return nil
	}
	return new(int64(*v))
}

// With --progress-regex, the progress is found in the log of rank 0's worker, by groups with the
// names of a JSON line. Programs that print their progress need no change.

// lineOf parses one line: JSON as in $ELASTIC_PROGRESS_FILE if expression is nil, else the last
// match of the expression.
func lineOf(expression *regexp.Regexp, b []byte) (l line, ok bool) {
	if expression == nil {
		return jsonLine(b)
	}
	all := expression.FindAllSubmatch(b, -1) // a progress bar is one line with many
	if all == nil {
		return l, false
	}
	match := all[len(all)-1]
	for i, name := range expression.SubexpNames() {
		v, err := strconv.ParseFloat(string(match[i]), 64)
		if err != nil {
			continue
		}
		switch name {
		case "step":
			l.Step = whole(&v)
		case "samples":
			l.Samples = whole(&v)
		case "total_steps":
			l.TotalSteps = whole(&v)
		case "total_samples":
			l.TotalSamples = whole(&v)
		case "loss":
			l.Loss = &v
		}
	}
	return l, l.Step != nil || l.Samples != nil || l.Loss != nil
}

// lengthOf returns the length of a file, 0 if there is none.
func lengthOf(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}
