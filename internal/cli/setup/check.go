// Package setup has the commands that prepare machines: check, certs, install and wheel.
package setup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/elasticd/elastic/internal/check"
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
)

// Check is the command that tests whether this machine can train.
func Check() command.Command {
	return command.Command{Name: "check", Args: "[JOB]", Most: 1,
		Usage: "whether this node, or the nodes of a job, can train", Action: checkAction,
		Flags: []command.Flag{
			command.JobFlag(),
			{Name: "node", Arg: "NAME", Usage: "name of this node in the job; then only its own faults fail",
				Env: []string{"ELASTIC_NODE"}},
			{Name: "dir", Arg: "DIR", Usage: "directory whose disk is checked (state directory)",
				Env: []string{"ELASTIC_CHECKPOINT_DIR"}},
			{Name: "min-free", Arg: "MIB", Usage: "free space that the disk must have (1024)"},
			{Name: "max-skew", Arg: "TIME", Usage: "largest difference between the clocks of nodes (5s)"},
			{Name: "transfer", Arg: "TIME", Usage: "how long the nodes send to each other, at most 10s (5s)"},
			{Name: "worker-ports", Arg: "LO-HI", Usage: "ports that workers use (any)",
				Env: []string{"ELASTIC_WORKER_PORTS"}},
		}}
}

func checkAction(ctx context.Context, c *command.Call) error {
	free, err := c.Setting("min-free").Number(1024, 0)
	if err != nil {
		return err
	}
	dir := c.Setting("dir").Text
	if dir == "" {
		if dir, err = local.State(c.Setting("state-dir").Text, c.Getenv); err != nil {
			return err
		}
	}
	network, err := checkFlags(c)
	if err != nil {
		return err
	}
	name, err := target.JobName(c)
	if err != nil {
		return err
	}
	all := []check.Finding{check.Disk(ctx, dir, int64(free)<<20)}
	joining := c.Getenv("ELASTIC_GENERATION") == "0"
	switch {
	case name == "":
		c.Out.Say("no job is named: the network is not checked")
	case joining:
		c.Out.Say("this node is not in the job yet: the network is checked before a generation starts")
	default:
		if all, err = checkNetwork(ctx, c, network, all); err != nil {
			return err
		}
	}
	return tellFindings(c, all)
}

// checkFlags reads the flags of the checks between nodes.
func checkFlags(c *command.Call) (*check.Network, error) {
	n := &check.Network{}
	var err error
	if n.MaxSkew, err = c.Setting("max-skew").Duration(5 * time.Second); err != nil {
		return nil, err
	}
	if n.Transfer, err = c.Setting("transfer").Duration(5 * time.Second); err != nil {
		return nil, err
	}
	if s := c.Setting("transfer"); n.Transfer > 10*time.Second || n.Transfer < time.Millisecond {
		return nil, s.Refuse("1ms to 10s")
	}
	n.PortsLo, n.PortsHi, err = c.Setting("worker-ports").Ports()
	n.Self = c.Setting("node").Text
	return n, err
}

// checkNetwork adds to what was found here what is found of the network between the registered nodes of a
// job.
func checkNetwork(
	ctx context.Context, c *command.Call, n *check.Network, here []check.Finding,
) ([]check.Finding, error) {
	s, name, err := target.JobServer(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	snap, err := target.LivingJob(ctx, c, s, name)
	if err != nil {
		return nil, err
	}
	if n.Secret, err = rendezvous.ReadSecret(ctx, s, snap.Job.Name, snap.Job.UID); err != nil {
		return nil, err
	}
	n.Job, n.UID = snap.Job.Name, snap.Job.Identity()
	var members []membership.Ref
	if snap.World != nil {
		members = snap.World.Members
	}
	n.Ring = check.Ring(members, snap.Nodes)
	if len(n.Ring) == 0 {
		c.Out.Say("no node of job %s is registered: the network is not checked", snap.Job.Name)
		return here, nil
	}
	// All nodes that check before one generation take part in the same transfers.
	n.Round = c.Getenv("ELASTIC_GENERATION")
	if g, err := strconv.ParseUint(n.Round, 10, 64); err != nil || g == 0 || n.Self == "" {
		var b [8]byte
		rand.Read(b[:])
		n.Round = hex.EncodeToString(b[:])
	}
	found, err := n.Run(ctx)
	all := append(here, found...)
	if err == nil && c.Getenv("ELASTIC_GENERATION") == "" { // the agent reports what a pre-hook finds
		noteFailed(ctx, txn.Requests{Store: s, Job: name}, &snap, failedOn(n.Self, all))
	}
	return all, err
}

// failedOn returns the checks that failed. What was found on this machine is about its node.
func failedOn(self string, all []check.Finding) (failed []check.Finding) {
	for _, f := range all {
		if f.Failed && f.Nodes == nil && self != "" {
			f.Nodes = []string{self}
		}
		if f.Failed {
			failed = append(failed, f)
		}
	}
	return failed
}

// noteFailed writes failed checks into the records of the machines of their nodes. Who may not write
// there still sees them.
func noteFailed(ctx context.Context, r txn.Requests, s *rendezvous.Snapshot, failed []check.Finding) {
	for _, f := range failed {
		kind := machines.Check
		switch f.Check {
		case "disk":
			kind = machines.Disk
		case "clock":
			kind = machines.Clock
		}
		for _, node := range f.Nodes {
			_ = r.NoteOf(ctx, node, machines.Incident{UID: s.Job.UID, Kind: kind,
				Text: f.Check + ": " + f.Text, Time: machines.Repeated(time.Now())})
		}
	}
}

// tellFindings prints the findings. It returns an error if a check failed.
func tellFindings(c *command.Call, all []check.Finding) error {
	var failed []check.Finding
	rows := [][]string{{"CHECK", "", ""}}
	for i, f := range all {
		if f.Nodes == nil {
			all[i].Nodes = []string{}
		}
		word := "ok"
		if f.Failed {
			word = "failed"
			failed = append(failed, f)
		} else if len(f.Nodes) > 0 {
			word = "see"
		}
		rows = append(rows, []string{f.Check, word, f.Text})
	}
	err := error(nil)
	if c.Out.Json {
		err = c.Out.Object(map[string]any{"checks": all})
	} else {
		err = c.Out.Table(rows)
	}
	if err != nil || len(failed) == 0 {
		return err
	}
	return problem.New(problem.Check, "%d of %s failed", len(failed), phrase.Count(len(all), "check")).
		Because("%s: %s", failed[0].Check, failed[0].Text).Detail("checks", all)
}
