package options

// This file has the command that shows batch size and learning rate for each size, and its flags,
// which run has too.

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
)

// Plan is elastic plan.
func Plan() command.Command {
	return command.Command{Name: "plan", Usage: "show batch and rate for each size, without a job",
		Action: planAction, File: command.FileAll,
		Flags: append([]command.Flag{
			{Name: "np", Arg: "N", Usage: "nodes, or MIN:MAX for each size of a range (1)",
				Same: []string{"nnodes", "num-nodes", "num-machines"}},
			{Name: "nproc-per-node", Arg: "N", Usage: "workers on each node (1)", Same: []string{"num-gpus"}},
		}, PlanFlags()...)}
}

// plannedSize is one row of `elastic plan -o json`.
type plannedSize struct {
	NP        int           `json:"np"`
	WorldSize int           `json:"world_size"`
	Plan      *scaling.Plan `json:"plan"`  // null: refused
	Error     *string       `json:"error"` // why there is no plan
}

// planAction shows each size of the range. A single size without a plan is an error. In a range it
// is a row with the reason.
func planAction(_ context.Context, c *command.Call) error {
	limits, err := planLimits(c)
	if err != nil {
		return err
	}
	slots, err := c.Setting("nproc-per-node").Number(1, 1)
	if err != nil {
		return err
	}
	if slots > scaling.MaxWorld/limits.Max {
		return problem.New(problem.NPRange, "%d nodes x %d workers: more than %d workers",
			limits.Max, slots, scaling.MaxWorld).Cure(command.NpFix)
	}
	base, err := base(c, limits, slots)
	if err == nil {
		err = base.Validate()
	}
	if err != nil {
		return err
	}
	if base.Batch == 0 && base.LR == 0 {
		return problem.New(problem.Usage, "nothing to plan: neither batch nor rate").
			Cure("elastic plan --np=3 --batch-size=256 --lr=0.1")
	}
	var sizes []plannedSize
	for np := limits.Min; np <= limits.Max; np++ {
		p, err := scaling.For(base, np*slots)
		if err != nil && limits.Min == limits.Max {
			return err
		}
		row := plannedSize{NP: np, WorldSize: np * slots, Plan: p}
		if err != nil {
			text := err.Error()
			row.Error = &text
		}
		sizes = append(sizes, row)
	}
	return showPlans(c, sizes)
}

// planLimits returns the sizes to show. It fails if there are too many to read.
func planLimits(c *command.Call) (rendezvous.Limits, error) {
	np := c.Setting("np")
	if !np.Given {
		return rendezvous.Limits{Min: 1, Max: 1, Exact: true}, nil
	}
	l, err := np.Limits()
	if err == nil && l.Max-l.Min >= maxChecked {
		err = np.Refuse("at most %d sizes at once", maxChecked)
	}
	return l, err
}

func showPlans(c *command.Call, sizes []plannedSize) error {
	if c.Out.Json {
		return c.Out.Object(sizes)
	}
	rows := [][]string{{"NP", "WORLD", "GLOBAL BATCH", "PER WORKER", "STEPS", "RATE", "OF BASE"}}
	for _, s := range sizes {
		row := []string{strconv.Itoa(s.NP), strconv.Itoa(s.WorldSize)}
		if p := s.Plan; p != nil {
			row = append(row, planCells(p)...)
		} else {
			row = append(row, "-", "-", "-", "-", *s.Error)
		}
		rows = append(rows, row)
	}
	return c.Out.Table(rows)
}

// planCells returns the columns of a row: global batch, batch per worker, micro-batches per step,
// learning rate, and its ratio to the base.
func planCells(p *scaling.Plan) []string {
	global, each, micro, lr := "-", "-", "-", "-"
	if p.GlobalBatch > 0 {
		global, each, micro = strconv.Itoa(p.GlobalBatch), shares(p.BatchSizes), strconv.Itoa(p.GradAccum)
	}
	if p.LR > 0 {
		lr = strconv.FormatFloat(p.LR, 'g', -1, 64)
	}
	return []string{global, each, micro, lr, fmt.Sprintf("%.4g", p.LRScale)}
}

// shares returns the batch sizes of all ranks in short form: 43x2 42x1.
func shares(sizes []int) string {
	first, last := sizes[0], sizes[len(sizes)-1]
	if first == last {
		return strconv.Itoa(first)
	}
	larger := 0
	for _, n := range sizes {
		if n == first {
			larger++
		}
	}
	parts := []string{fmt.Sprintf("%dx%d", first, larger), fmt.Sprintf("%dx%d", last, len(sizes)-larger)}
	return strings.Join(parts, " ")
}
