package show

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/schema"
)

// machine is what `elastic nodes --all -o json` has of a machine.
type machine struct {
	machines.Record
	Weights map[machines.Kind]float64 `json:"weights"`
	Doubt   string                    `json:"doubt"` // why the next job takes it as a spare only; "": it does not
}

// allMachines shows the machines of which something is known.
func allMachines(ctx context.Context, c *command.Call) error {
	s, err := target.Open(ctx, c, target.Ask, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := machines.All(ctx, s)
	if err != nil {
		return err
	}
	now := c.Out.Now()
	switch {
	case c.Truth("scontrol"):
		return scontrol(c, all)
	case c.Out.Json:
		list := []machine{}
		for _, r := range all {
			list = append(list, machine{r, weights(&r, now), r.Doubt("", now)})
		}
		return c.Out.Object(list)
	}
	rows := [][]string{{"MACHINE", "HOST", "LEFT OUT", "FAILED", "LOST", "HUNG", "OTHER", "STATE", "LAST", ""}}
	for _, r := range all {
		w, last := weights(&r, now), r.Last()
		other, seen := 0.0, "-"
		for _, k := range []machines.Kind{machines.Device, machines.Disk, machines.Clock, machines.Check} {
			other += w[k]
		}
		if !last.Time.IsZero() {
			seen = c.Out.Since(last.Time)
		}
		row := []string{r.ID[:min(12, len(r.ID))], r.Hostname}
		for _, n := range []float64{w[machines.LeftOut], w[machines.Failed], w[machines.Lost],
			w[machines.Hung], other} {
			row = append(row, fmt.Sprintf("%.1f", n))
		}
		rows = append(rows, append(row, machineState(&r, now), seen, evidence(&r)))
	}
	return c.Out.Table(rows)
}

func weights(r *machines.Record, now time.Time) map[machines.Kind]float64 {
	w := map[machines.Kind]float64{}
	for _, k := range machines.Kinds() {
		w[k] = r.Weight(k, now)
	}
	return w
}

// machineState is how the next job takes the machine.
func machineState(r *machines.Record, now time.Time) string {
	switch {
	case r.Drained != nil:
		return "drained"
	case r.Doubt("", now) != "":
		return "spare"
	}
	return "used"
}

// evidence is the newest incident, with its job.
func evidence(r *machines.Record) string {
	last := r.Last()
	if last.Time.IsZero() {
		return ""
	}
	text := fmt.Sprintf("%s: job %s, node %s: %s", last.Kind, last.Job, last.Node, last.Text)
	if n := len(r.Incidents) - 1; n > 0 {
		text += fmt.Sprintf(" (and %s before)", phrase.Count(n, "more incident"))
	}
	return text
}

// scontrol prints the line for each machine that is drained or in doubt, which an epilog of Slurm can
// run. Elastic does not run it.
func scontrol(c *command.Call, all []machines.Record) error {
	for _, r := range all {
		if machineState(&r, c.Out.Now()) == "used" {
			continue
		}
		reason := strings.Map(func(c rune) rune {
			if c < ' ' || c == '\'' || c == '"' {
				return ' '
			}
			return c
		}, evidence(&r))
		host, _, _ := strings.Cut(r.Hostname, ".")
		if !schema.ValidName(host) { // a record of another program
			continue
		}
		err := c.Out.Line("scontrol update NodeName=%s State=DRAIN Reason='elastic: %s'", host, reason)
		if err != nil {
			return err
		}
	}
	return nil
}
