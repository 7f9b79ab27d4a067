package options

import (
	"math"
	"strconv"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
)

// PlanFlags are the flags for batch size and learning rate of run and plan.
func PlanFlags() []command.Flag {
	return []command.Flag{
		{Name: "batch-size", Arg: "N", Usage: "global batch, at --base-np"},
		{Name: "lr", Arg: "RATE", Usage: "learning rate, at --base-np"},
		{Name: "base-np", Arg: "N", Usage: "nodes that --batch-size and --lr are meant for (np)"},
		{Name: "scaling", Arg: "POLICY", Usage: scaling.Policies + " (linear)",
			Values: []string{"linear", "sqrt", "fixed-batch"}},
		{Name: "warmup-samples", Arg: "N", Usage: "samples over which a raised rate is reached (0)"},
	}
}

// PlanBatch reads batch size and learning rate. It fails if a size of the job has no plan.
func PlanBatch(c *command.Call, o *node.Options) error {
	b, err := base(c, o.Job.Limits, o.Job.Slots)
	if err != nil {
		return err
	}
	o.Job.Base = b
	return checkPlans(c, b, o.Job.Limits)
}

// base reads the batch size and the learning rate.
func base(c *command.Call, limits rendezvous.Limits, slots int) (b scaling.Base, err error) {
	b.Slots, b.Policy = slots, scaling.Linear
	for _, n := range []struct {
		name             string
		to               *int
		otherwise, least int
	}{{"base-np", &b.Nodes, limits.Max, 1}, {"batch-size", &b.Batch, 0, 1}} {
		if *n.to, err = c.Setting(n.name).Number(n.otherwise, n.least); err != nil {
			return b, err
		}
	}
	if b.LR, err = positive(c.Setting("lr")); err != nil {
		return b, err
	}
	warmup, err := c.Setting("warmup-samples").Number(0, 0)
	if err != nil {
		return b, err
	}
	b.WarmupSamples = int64(warmup)
	if policy := c.Setting("scaling"); policy.Given {
		b.Policy = scaling.Policy(policy.Text)
	}
	if b.Policy == scaling.FixedBatch && b.Batch == 0 {
		return b, problem.New(problem.NoPlan, "--scaling=fixed-batch fixes no batch: --batch-size is not given").
			Cure("--batch-size=256 --scaling=fixed-batch")
	}
	return b, nil
}

// maxChecked is how many sizes of a range are checked.
const maxChecked = 1024

// checkPlans fails if a size within the limits has no plan.
func checkPlans(c *command.Call, b scaling.Base, l rendezvous.Limits) error {
	for np := l.Max; np >= l.Min && l.Max-np < maxChecked; np-- {
		if _, err := scaling.For(b, np*b.Slots); err != nil {
			e := problem.New(problem.NoPlan, "%v", err).Of(err).Cure("another --batch-size, or another size")
			if np < l.Max {
				e.Because("--np=%s: the job may run with %d nodes", l, np)
			}
			return e
		}
	}
	return nil
}

// positive parses a number above 0. It returns 0 if the setting was not given.
func positive(s command.Setting) (float64, error) {
	if !s.Given {
		return 0, nil
	}
	v, err := strconv.ParseFloat(s.Text, 64)
	if err != nil || v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, s.Refuse("a number above 0")
	}
	return v, nil
}
