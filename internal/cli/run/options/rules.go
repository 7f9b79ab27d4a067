package options

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// saving reads which workers write saves, and which nodes load them.
func saving(c *command.Call, j *rendezvous.Job) error {
	r := &j.Rules
	r.SaveFrom = checkpoint.SaveFrom(c.Setting("save-from").Text)
	if f := c.Setting("save-files"); f.Given {
		r.SaveFiles = checkpoint.SaveFiles(f.Text)
		if err := r.SaveFiles.Check(); err != nil {
			return f.Refuse("%v", err).Cure("--save-files=model.pt,optimizer.pt")
		}
	}
	r.Load = checkpoint.LoadAll
	l := c.Setting("load")
	if !l.Given {
		return nil
	}
	switch r.Load = checkpoint.Load(l.Text); {
	case r.Load == checkpoint.LoadOwn && r.SaveFrom == checkpoint.SaveFromRank0:
		return l.Refuse("with --save-from=rank0 no node has a part of its own; leave one of them out")
	case r.Load == checkpoint.LoadOwn && j.Roles != nil:
		return l.Refuse("the tables of parameter servers are not kept by rank; leave it out")
	}
	return nil
}

// rollbacks is the default limit of rollbacks in a row because of the loss.
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

// progressRegex reads a regular expression with groups named step, loss or samples.
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
