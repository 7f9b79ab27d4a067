package node

import (
	"os"
	"regexp"
	"strconv"
)

// A program that tells nothing may still print how far it is. --progress-regex finds it in the log of
// rank 0's worker, by groups that are named step, loss and samples.

// lineOf reads one line of JSON, as $ELASTIC_PROGRESS_FILE has them, where expression is nil; else what
// the last match of the expression in a line of a log says.
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
