package cli

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
)

// maxScale bounds the world over the base world where nothing else was said: there is no published
// evidence for rates that follow a world further without tuning.
const maxScale = 8

// batchFlags are the settings of batch and rate, the same for run and plan.
func batchFlags() []flag {
	return []flag{
		{name: "batch-size", arg: "N", usage: "global batch, at --base-np"},
		{name: "lr", arg: "RATE", usage: "learning rate, at --base-np"},
		{name: "base-np", arg: "N", usage: "nodes that both are meant for (np)"},
		{name: "scaling", arg: "POLICY", usage: scaling.Policies + " (linear)"},
		{name: "table", arg: "NP:BATCH:LR,…", usage: "global batch and rate of each size, for --scaling=table"},
		{name: "max-batch-size", arg: "N", usage: "refuse sizes with a larger global batch (none)"},
		{name: "max-lr", arg: "RATE", usage: "refuse sizes with a higher rate (none)"},
		{name: "max-scale", arg: "K", usage: "refuse sizes beyond K times base-np under linear and sqrt (8)"},
		{name: "warmup-samples", arg: "N", usage: "samples over which a raised rate is reached (0)"},
	}
}

// batch reads batch and rate, and refuses a job that has no plan for one of its sizes.
func (c *call) batch(o *node.Options) error {
	b, err := c.base(o.Job.Limits, o.Job.Slots)
	if err != nil {
		return err
	}
	o.Job.Base = b
	return c.planned(b, o.Job.Limits)
}

// base reads batch and rate.
func (c *call) base(limits rendezvous.Limits, slots int) (b scaling.Base, err error) {
	b.Slots, b.Policy = slots, scaling.Linear
	for _, n := range []struct {
		name             string
		to               *int
		otherwise, least int
	}{{"base-np", &b.Nodes, limits.Max, 1}, {"batch-size", &b.Batch, 0, 1}, {"max-batch-size", &b.MaxBatch, 0, 1}} {
		if *n.to, err = c.setting(n.name).number(n.otherwise, n.least); err != nil {
			return b, err
		}
	}
	for _, f := range []struct {
		name string
		to   *float64
	}{{"lr", &b.LR}, {"max-lr", &b.MaxLR}, {"max-scale", &b.MaxScale}} {
		if *f.to, err = c.setting(f.name).positive(); err != nil {
			return b, err
		}
	}
	warmup, err := c.setting("warmup-samples").number(0, 0)
	if err != nil {
		return b, err
	}
	b.WarmupSamples = int64(warmup)
	table, policy := c.setting("table"), c.setting("scaling")
	if table.given {
		b.Policy = scaling.FromTable
		if b.Table, err = scaling.ParseTable(table.text); err != nil {
			return b, fail(NoPlan, "--table: %v", err).of(err).cure("--table=1:64:0.05,2:128:0.1")
		}
	}
	if policy.given {
		switch b.Policy = scaling.Policy(policy.text); b.Policy {
		case scaling.Linear, scaling.Sqrt, scaling.FixedBatch, scaling.FromTable:
		default:
			return b, policy.refuse("%s", scaling.Policies)
		}
	}
	follows := b.Policy == scaling.Linear || b.Policy == scaling.Sqrt
	if b.MaxScale == 0 && follows && (b.Batch > 0 || b.LR > 0) {
		b.MaxScale = maxScale
	}
	return b, nil
}

// mostChecked bounds the sizes of a range that are looked at one by one.
const mostChecked = 1024

// planned refuses limits of which one size has no plan.
func (c *call) planned(b scaling.Base, l rendezvous.Limits) error {
	for np := l.Max; np >= l.Min && l.Max-np < mostChecked; np-- {
		if _, err := scaling.For(b, np*b.Slots); err != nil {
			e := fail(NoPlan, "%v", err).of(err).cure("another --batch-size, or another size")
			if np < l.Max {
				e.because("--np=%s: the job may run with %d nodes", l, np)
			}
			return e
		}
	}
	return nil
}

// positive parses a number above 0; 0 means that it was not given.
func (s setting) positive() (float64, error) {
	if !s.given {
		return 0, nil
	}
	v, err := strconv.ParseFloat(s.text, 64)
	if err != nil || v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, s.refuse("a number above 0")
	}
	return v, nil
}

// rollbacks is how often in a row a job goes back because of its loss, where nothing else was said.
const rollbacks = 3

// onNaN reads ignore, fail, rollback or rollback:K.
func (c *call) onNaN(r *rendezvous.Rules) error {
	s := c.setting("on-nan")
	if !s.given {
		return nil
	}
	rule, times, limited := strings.Cut(s.text, ":")
	r.OnNaN = rendezvous.OnNaN(rule)
	switch r.OnNaN {
	case rendezvous.NaNIgnored, rendezvous.NaNFails:
		if limited {
			return s.refuse("only rollback has a number of times")
		}
		return nil
	case rendezvous.NaNRollback:
		if r.Rollbacks = rollbacks; !limited {
			return nil
		}
		n, err := strconv.Atoi(times)
		if err != nil || n < 1 {
			return s.refuse("rollback:K goes back at most K times in a row, at least 1")
		}
		r.Rollbacks = n
		return nil
	}
	return s.refuse("ignore, fail or rollback[:K]")
}

// progressRegex reads an expression with groups that are named step, loss or samples.
func (c *call) progressRegex() (*regexp.Regexp, error) {
	s := c.setting("progress-regex")
	if !s.given {
		return nil, nil
	}
	e, err := regexp.Compile(s.text)
	if err != nil {
		return nil, s.refuse("%v", err)
	}
	if e.SubexpIndex("step") < 0 && e.SubexpIndex("samples") < 0 && e.SubexpIndex("loss") < 0 {
		return nil, s.refuse("no group is named step, loss or samples").cure(`--progress-regex='step (?P<step>\d+) loss (?P<loss>\S+)'`)
	}
	return e, nil
}
