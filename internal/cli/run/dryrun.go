package run

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// dryRun shows what this command would start on this node: the first world of a new job, with its
// largest number of nodes, and the command and environment of each worker. It contacts no server.
func dryRun(c *command.Call, o *node.Options) error {
	p, err := newPreview(*o)
	if err != nil {
		return err
	}
	server, err := target.Where(c)
	if err != nil {
		return err
	}
	if c.Out.Json {
		return c.Out.Object(struct {
			Job          string            `json:"job"`
			Server       string            `json:"server"`
			Limits       rendezvous.Limits `json:"limits"`
			NprocPerNode int               `json:"nproc_per_node"`
			WorldSize    int               `json:"world_size"`
			LogDir       string            `json:"log_dir"`
			preview
		}{string(o.Job.Name), server, o.Job.Limits, o.Job.Slots, o.Job.Workers(o.Job.Limits.Max), o.LogDir, p})
	}
	if err := c.Out.Line("job %s: np=%s nodes x %s = world size %d; nothing was started",
		o.Job.Name, o.Job.Limits, phrase.Count(o.Job.Slots, "worker"),
		o.Job.Workers(o.Job.Limits.Max)); err != nil {
		return err
	}
	for _, row := range [][2]string{{"server", server}, {"logs", o.LogDir},
		{"checkpoints", p.CheckpointDir}} {
		if err := c.Out.Line("%s: %s", row[0], row[1]); err != nil {
			return err
		}
	}
	if err := showWorld(c, p.World); err != nil {
		return err
	}
	for _, w := range p.Workers {
		if err := showWorker(c, &w); err != nil {
			return err
		}
	}
	return nil
}

// maxShown is how many nodes of a world a dry run lists.
const maxShown = 16

func showWorld(c *command.Call, world []previewNode) error {
	rows := [][]string{{"NODE RANK", "NODE", "ADDRESS", "RANKS"}}
	for _, n := range world[:min(maxShown, len(world))] {
		ranks := "-" // the node has only servers
		for i, r := range n.Ranks {
			switch last := n.Ranks[len(n.Ranks)-1]; {
			case i == 0 && last == r:
				ranks = strconv.Itoa(r)
			case i == 0:
				ranks = fmt.Sprintf("%d-%d", r, last)
			}
		}
		rows = append(rows, []string{strconv.Itoa(n.Rank), cmp.Or(n.Node, "any"), n.Address, ranks})
	}
	if err := c.Out.Table(rows); err != nil || len(world) <= maxShown {
		return err
	}
	return c.Out.Line("and %d more nodes", len(world)-maxShown)
}

func showWorker(c *command.Call, w *previewWorker) error {
	if err := c.Out.Line("%s (local rank %d): %s", w.Process, w.LocalRank,
		strings.Join(w.Argv, " ")); err != nil {
		return err
	}
	if w.CPUs != nil {
		if err := c.Out.Line("  bound to processors %v", w.CPUs); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Environment)) {
		if err := c.Out.Line("  %s=%s", name, w.Environment[name]); err != nil {
			return err
		}
	}
	return nil
}
