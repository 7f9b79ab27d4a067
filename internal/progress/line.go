package progress

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// line is one line of $ELASTIC_PROGRESS_FILE: any subset.
type line struct {
	Step    *int64   `json:"step"`
	Loss    *loss    `json:"loss"`
	Samples *int64   `json:"samples"`
	First   *float64 `json:"first"`  // when the first step of the generation ended, in seconds of Unix time
	Before  *float64 `json:"before"` // and when the one before it ended, in an older generation
	// Of the whole training: one of them suffices.
	TotalSteps   *int64 `json:"total_steps"`
	TotalSamples *int64 `json:"total_samples"`
}

// loss is a number, or what programs write for one that is not finite.
type loss float64

func (l *loss) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*l = loss(v)
	return err
}

// notFinite are the words of Python's json for what JSON has no word for.
var notFinite = regexp.MustCompile(`"loss"\s*:\s*(-?Infinity|NaN)\b`)

func jsonLine(b []byte) (l line, ok bool) {
	err := json.Unmarshal(notFinite.ReplaceAll(b, []byte(`"loss":"$1"`)), &l)
	return l, err == nil
}

// A program that tells nothing may still print how far it is. --progress-regex finds it in the log
// of rank 0's worker, by groups with the names of a line of JSON.

// lineOf reads one line of JSON, as $ELASTIC_PROGRESS_FILE has them, where expression is nil; else
// what the last match of the expression in a line of a log says.
func lineOf(expression *regexp.Regexp, b []byte) (l line, ok bool) {
	if expression == nil {
		return jsonLine(b)
	}
	all := expression.FindAllSubmatch(b, -1) // a bar that redraws itself is one line with many
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

// lengthOf is the length of a file, 0 if there is none.
func lengthOf(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}
