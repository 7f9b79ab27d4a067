package launch

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrPlaceholder is wrapped by the errors about placeholders in the program's arguments.
var ErrPlaceholder = errors.New("placeholder")

var placeholder = regexp.MustCompile(`\{[a-z][a-z_]*\}`)

// CheckPlaceholders fails if an argument has a placeholder that no worker has a value for.
func CheckPlaceholders(args []string) error {
	for _, a := range args {
		for _, p := range placeholder.FindAllString(a, -1) {
			if !slices.Contains(workerNames, variableOf(p)) {
				return fmt.Errorf("%w %s: no worker has %s", ErrPlaceholder, p, variableOf(p))
			}
		}
	}
	return nil
}

// Expand replaces {name} in args by ELASTIC_NAME of a worker's environment. It leaves other braces
// unchanged.
func Expand(args, environ []string) ([]string, error) {
	values := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			values[name] = value
		}
	}
	out := slices.Clone(args)
	for i, a := range args {
		var missing string
		out[i] = placeholder.ReplaceAllStringFunc(a, func(p string) string {
			value, ok := values[variableOf(p)]
			if !ok {
				missing = p
			}
			return value
		})
		if missing != "" {
			return nil, fmt.Errorf("%w %s: %s has no value in this job; it comes with --batch-size or --lr",
				ErrPlaceholder, missing, variableOf(missing))
		}
	}
	return out, nil
}

var localRank = regexp.MustCompile(`\$(?:\{local_rank\}|local_rank\b)`)

// LocalRank replaces torchrun's ${local_rank} and $local_rank in the arguments of a worker.
func LocalRank(args []string, local int) []string {
	out := slices.Clone(args)
	for i, a := range args {
		out[i] = localRank.ReplaceAllString(a, strconv.Itoa(local))
	}
	return out
}

func variableOf(placeholder string) string {
	return "ELASTIC_" + strings.ToUpper(strings.Trim(placeholder, "{}"))
}
