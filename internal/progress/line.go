package progress

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// line is one line of $ELASTIC_PROGRESS_FILE. All fields are optional.
type line struct {
	Step    *int64   `json:"step"`
	Loss    *loss    `json:"loss"`
	Samples *int64   `json:"samples"`
	First   *float64 `json:"first"`  // end of the generation's first step, in seconds of Unix time
	Before  *float64 `json:"before"` // end of the last step in an older generation
	// Of the whole training. One of the two is enough.
	TotalSteps   *int64 `json:"total_steps"`
	TotalSamples *int64 `json:"total_samples"`
}

// loss is a number, or the text that programs write for one that is not finite.
type loss float64

func (l *loss) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*l = loss(v)
	return err
}

// notFinite matches the words of Python's json for numbers that JSON does not have.
var notFinite = regexp.MustCompile(`"loss"\s*:\s*(-?Infinity|NaN)\b`)

func jsonLine(b []byte) (l line, ok bool) {
	err := json.Unmarshal(notFinite.ReplaceAll(b, []byte(`"loss":"$1"`)), &l)
	return l, err == nil
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
		whole := int64(v)
		switch name {
		case "step":
			l.Step = &whole
		case "samples":
			l.Samples = &whole
		case "total_steps":
			l.TotalSteps = &whole
		case "total_samples":
			l.TotalSamples = &whole
		case "loss":
			value := loss(v)
			l.Loss = &value
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
