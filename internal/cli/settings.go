package cli

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// setting is a value with its origin: a flag, else the environment, else none. The origin is named
// in errors, because a wrong value is rarely where it is looked for.
type setting struct {
	name   string // of the flag
	text   string
	origin string // "--np", "ELASTIC_NP"
	given  bool
}

// String is the setting as it was given.
func (s setting) String() string { return s.origin + "=" + s.text }

// setting looks a flag of this command up. An empty variable is none.
func (c *call) setting(name string) setting {
	for _, f := range c.command.flags {
		if f.name != name {
			continue
		}
		if c.context.IsSet(name) {
			text := c.context.String(name)
			if f.kind == list {
				text = strings.Join(c.context.StringSlice(name), ",")
			}
			return setting{name, text, "--" + name, true}
		}
		for _, e := range f.env {
			if v := c.Getenv(e); v != "" {
				return setting{name, v, e, true}
			}
		}
	}
	return setting{name: name, origin: "--" + name}
}

func (s setting) refuse(format string, args ...any) *Error {
	return fail(Usage, "%s: "+format, append([]any{s}, args...)...)
}

// number parses a whole number from least up.
func (s setting) number(otherwise, least int) (int, error) {
	if !s.given {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s.text)
	if err != nil || n > math.MaxInt32 {
		return 0, s.refuse("not a whole number")
	}
	if n < least {
		return 0, s.refuse("at least %d", least)
	}
	return n, nil
}

// duration parses a time in Go's form, above 0; with zero, 0 means none.
func (s setting) duration(otherwise time.Duration, zero bool) (time.Duration, error) {
	if !s.given {
		return otherwise, nil
	}
	d, err := time.ParseDuration(s.text)
	switch {
	case zero && (s.text == "0" || s.text == "none"):
		return 0, nil
	case err != nil:
		return 0, s.refuse("not a time").cure("--%s=30s, 500ms, 2m", s.name)
	case d < 0 || d == 0 && !zero:
		return 0, s.refuse("a time above 0")
	}
	return d, nil
}

// maxNodes bounds np: what is beyond is a slip of the finger.
const maxNodes = scaling.MaxWorld

// nodes parses one size.
func (s setting) nodes(text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil && !digits(text):
		return 0, fail(NPRange, "%s: np is a number of nodes", s).cure(npFix)
	case err != nil || n > maxNodes:
		return 0, fail(NPRange, "%s: more than %d nodes", s, maxNodes).cure(npFix)
	case n < 1:
		return 0, fail(NPRange, "%s: a job needs at least 1 node", s).cure(npFix)
	}
	return n, nil
}

const npFix = "--np=N or --np=MIN:MAX"

func digits(s string) bool {
	return s != "" && strings.Trim(strings.TrimLeft(s, "+-"), "0123456789") == ""
}

// limits parses N or MIN:MAX.
func (s setting) limits() (rendezvous.Limits, error) {
	low, high, ranged := strings.Cut(s.text, ":")
	least, err := s.nodes(low)
	if err != nil {
		return rendezvous.Limits{}, err
	}
	if !ranged {
		return rendezvous.Limits{Min: least, Max: least, Exact: true}, nil
	}
	most, err := s.nodes(high)
	if err != nil {
		return rendezvous.Limits{}, err
	}
	if least > most {
		return rendezvous.Limits{}, fail(NPRange, "%s: MIN is above MAX", s).cure("--np=%d:%d", most, least)
	}
	return rendezvous.Limits{Min: least, Max: most}, nil
}

// validName refuses what cannot name a job or a node.
func validName(what, name string) error {
	if schema.ValidName(name) {
		return nil
	}
	return fail(BadName, "%s name %q", what, name).
		because("a name has 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit")
}

// ports parses LO-HI.
func (s setting) ports() (lo, hi int, err error) {
	if !s.given {
		return 0, 0, nil
	}
	low, high, ok := strings.Cut(s.text, "-")
	lo, err = strconv.Atoi(low)
	hi, err2 := strconv.Atoi(high)
	if !ok || err != nil || err2 != nil || lo < 1 || hi > 65535 || lo > hi {
		return 0, 0, s.refuse("not a range of ports").cure("--%s=20000-20999", s.name)
	}
	return lo, hi, nil
}
