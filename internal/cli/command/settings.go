package command

import (
	"math"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// Source is the origin of a value. A higher source overrides a lower one.
type Source int

// The sources, lowest first.
const (
	NoSource Source = iota
	FromFile
	FromEnvironment
	FromFlag
)

// Setting is a value and its origin: a flag, else the environment, else elastic.yaml, else none.
// Errors name the origin, so that the user finds the wrong value.
type Setting struct {
	Name   string // the name of the flag
	Text   string
	Origin string // "--np", "ELASTIC_NP", "elastic.yaml:3: np"
	Typed  string // a flag as it was typed: "--nnodes"
	Given  bool
	From   Source
}

// String returns the setting as the user gave it.
func (s Setting) String() string { return s.Origin + "=" + s.Text }

// Setting returns the value of a flag of this command. An empty variable counts as not set.
func (c *Call) Setting(name string) Setting {
	for _, f := range c.Command.All() {
		if f.Name != name {
			continue
		}
		if values := c.typed.Values[name]; len(values) > 0 {
			text := values[len(values)-1]
			if f.Kind == list {
				text = strings.Join(values, ",")
			}
			return Setting{name, text, "--" + name, c.typed.spelled[name], true, FromFlag}
		}
		for _, e := range f.Env {
			if v := c.Getenv(e); v != "" {
				return Setting{name, v, e, "", true, FromEnvironment}
			}
		}
		if s, ok := c.file[name]; ok && f.inFile(c.Command.File) {
			return s
		}
	}
	return Setting{Name: name, Origin: "--" + name}
}

func (s Setting) Refuse(format string, args ...any) *problem.Error {
	return problem.New(problem.Usage, "%s: "+format, append([]any{s}, args...)...)
}

// Number parses a whole number that is at least least.
func (s Setting) Number(otherwise, least int) (int, error) {
	if !s.Given {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s.Text)
	if err != nil || n > math.MaxInt32 {
		return 0, s.Refuse("not a whole number")
	}
	if n < least {
		return 0, s.Refuse("at least %d", least)
	}
	return n, nil
}

// Duration parses a positive time in Go's format.
func (s Setting) Duration(otherwise time.Duration) (time.Duration, error) {
	d, err := s.DurationOrNone(otherwise)
	if err == nil && s.Given && d == 0 {
		if s.Text == "none" {
			return 0, s.notATime()
		}
		return 0, s.Refuse("a time above 0")
	}
	return d, err
}

// DurationOrNone parses a time in Go's format; 0 means no limit.
func (s Setting) DurationOrNone(otherwise time.Duration) (time.Duration, error) {
	if !s.Given {
		return otherwise, nil
	}
	if s.Text == "none" {
		return 0, nil
	}
	d, err := time.ParseDuration(s.Text)
	switch {
	case err != nil:
		return 0, s.notATime()
	case d < 0:
		return 0, s.Refuse("a time above 0")
	}
	return d, nil
}

func (s Setting) notATime() error {
	return s.Refuse("not a time").Cure("--%s=30s, 500ms, 2m", s.Name)
}

// maxNodes is the largest np. A larger number is a typing error.
const maxNodes = scaling.MaxWorld

// Nodes parses one number of nodes.
func (s Setting) Nodes(text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil && !Digits(text):
		return 0, problem.New(problem.NPRange, "%s: np is a number of nodes", s).
			Cure("a number of nodes, from 1 to %d", maxNodes)
	case err != nil || n > maxNodes:
		return 0, problem.New(problem.NPRange, "%s: more than %d nodes", s, maxNodes).
			Cure("a number of nodes, from 1 to %d", maxNodes)
	case n < 1:
		return 0, problem.New(problem.NPRange, "%s: a job needs at least 1 node", s).
			Cure("a number of nodes, from 1 to %d", maxNodes)
	}
	return n, nil
}

const NpFix = "--np=N or --np=MIN:MAX"

func Digits(s string) bool {
	return s != "" && strings.Trim(strings.TrimLeft(s, "+-"), "0123456789") == ""
}

// Limits parses N or MIN:MAX.
func (s Setting) Limits() (rendezvous.Limits, error) {
	low, high, ranged := strings.Cut(s.Text, ":")
	least, err := s.Nodes(low)
	if err != nil {
		return rendezvous.Limits{}, screen.KnownProblem(err).Cure(NpFix)
	}
	if !ranged {
		return rendezvous.Limits{Min: least, Max: least, Exact: true}, nil
	}
	most, err := s.Nodes(high)
	if err != nil {
		return rendezvous.Limits{}, screen.KnownProblem(err).Cure(NpFix)
	}
	if least > most {
		return rendezvous.Limits{}, problem.New(problem.NPRange, "%s: MIN is above MAX", s).
			Cure("--np=%d:%d", most, least)
	}
	return rendezvous.Limits{Min: least, Max: most}, nil
}

// ValidName fails if name cannot name a job or a node.
func ValidName(what, name string) error {
	if schema.ValidName(name) {
		return nil
	}
	return problem.New(problem.BadName, "%s name %q", what, name).
		Because("a name has 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit")
}

// Ports parses LO-HI.
func (s Setting) Ports() (lo, hi int, err error) {
	if !s.Given {
		return 0, 0, nil
	}
	low, high, ok := strings.Cut(s.Text, "-")
	lo, err = strconv.Atoi(low)
	hi, err2 := strconv.Atoi(high)
	if !ok || err != nil || err2 != nil || lo < 1 || hi > 65535 || lo > hi {
		return 0, 0, s.Refuse("not a range of ports").Cure("--%s=20000-20999", s.Name)
	}
	return lo, hi, nil
}

// Truth returns the value of a boolean flag, or of its variable. torchrun takes 1 and 0 there.
func (c *Call) Truth(name string) bool {
	b, err := strconv.ParseBool(c.Setting(name).Text)
	return err == nil && b
}

// UserName returns the user of this machine that runs the command.
func (c *Call) UserName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	if name := c.Getenv("USER"); name != "" {
		return name
	}
	return "uid " + strconv.Itoa(os.Geteuid()) // as in a container that does not know the user
}
