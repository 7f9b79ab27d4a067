package options

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// rollbacks is how often in a row a job goes back because of its loss, where nothing else was said.
const rollbacks = 3

// onNaN reads ignore, fail, rollback or rollback:K.
func onNaN(c *command.Call, r *rendezvous.Rules) error {
	s := c.Setting("on-nan")
	if !s.Given {
		return nil
	}
	rule, times, limited := strings.Cut(s.Text, ":")
	r.OnNaN = rendezvous.OnNaN(rule)
	switch r.OnNaN {
	case rendezvous.NaNIgnored, rendezvous.NaNFails:
		if limited {
			return s.Refuse("only rollback has a number of times")
		}
		return nil
	case rendezvous.NaNRollback:
		if r.Rollbacks = rollbacks; !limited {
			return nil
		}
		n, err := strconv.Atoi(times)
		if err != nil || n < 1 {
			return s.Refuse("rollback:K goes back at most K times in a row, at least 1")
		}
		r.Rollbacks = n
		return nil
	}
	return s.Refuse("ignore, fail or rollback[:K]")
}

// progressRegex reads an expression with groups that are named step, loss or samples.
func progressRegex(c *command.Call) (*regexp.Regexp, error) {
	s := c.Setting("progress-regex")
	if !s.Given {
		return nil, nil
	}
	e, err := regexp.Compile(s.Text)
	if err != nil {
		return nil, s.Refuse("%v", err)
	}
	if e.SubexpIndex("step") < 0 && e.SubexpIndex("samples") < 0 && e.SubexpIndex("loss") < 0 {
		return nil, s.Refuse("no group is named step, loss or samples").
			Cure(`--progress-regex='step (?P<step>\d+) loss (?P<loss>\S+)'`)
	}
	return e, nil
}
