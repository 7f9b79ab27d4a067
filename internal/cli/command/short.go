package command

import (
	"slices"
	"strings"
)

// option is a flag of the line with its value.
type option struct {
	flag     *Flag
	theirs   bool // of another launcher, accepted and ignored
	value    string
	assigned bool // the value is in the same word
}

// shorten finds the flag of elastic run that a word stands for in argparse: a short flag with its
// value (-t3), or an unambiguous beginning of a name (--redirect). Where a beginning fits several
// flags, and one of them is torchrun's, it is that one.
func (r *reader) shorten(word, name string, o option) option {
	if r.cmd == nil || r.cmd.Most >= 0 || removed()[name].why != "" {
		return o
	}
	if !strings.HasPrefix(word, "--") {
		if f := spell(r.cmd.All())[word[1:2]]; f != nil && f.Kind != Boolean && len(word) > 2 {
			return option{flag: f, value: word[2:], assigned: true}
		}
		return o
	}
	fit := r.beginning(name)
	if len(fit) > 1 {
		fit = slices.DeleteFunc(fit, func(f *Flag) bool { return !slices.Contains(torchrunFlags, f.Name) })
	}
	if len(fit) == 1 {
		o.flag, o.theirs = fit[0], r.ignored[fit[0].Name] != nil
	}
	return o
}

// beginning returns the flags of run, each once, with a name that begins with name.
func (r *reader) beginning(name string) (fit []*Flag) {
	for _, known := range []spelling{spell(r.cmd.All()), r.ignored} {
		for _, f := range known {
			if strings.HasPrefix(f.Name, name) ||
				slices.ContainsFunc(f.Same, func(s string) bool { return strings.HasPrefix(s, name) }) {
				fit = append(fit, f)
			}
		}
	}
	slices.SortFunc(fit, func(a, b *Flag) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(fit, func(a, b *Flag) bool { return a.Name == b.Name })
}

// torchrunFlags are the flags of torchrun, by the names that they have here.
var torchrunFlags = []string{"np", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "job-id", "rdzv-conf",
	"standalone", "max-restarts", "monitor-interval", "start-method", "event-log-handler", "role", "module",
	"no-python", "run-path", "log-dir", "redirects", "tee", "log-line-prefix-template", "console",
	"duplicate-stdout-filters", "duplicate-stderr-filters", "node-rank", "master-addr", "master-port",
	"host", "logs-specs", "numa-binding", "signals-to-handle", "shutdown-timeout", "virtual-local-rank"}

// unset are flags of torchrun and Paddle's launcher whose empty value, that of a variable which a
// script did not set, is the default for them.
var unset = []string{"rdzv-endpoint", "rdzv-id", "local-ranks-filter", "local-addr", "devices", "gpus", "ips",
	"master"}
