package change

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
)

// Recover is the command that lets a job go on that its server lost, or that is of another server.
func Recover() command.Command {
	return command.Command{Name: "recover", Args: "JOB", Most: 1,
		Usage:  "let a job go on whose server lost it, from the newest checkpoint of its nodes",
		Action: recoverAction, Flags: []command.Flag{command.JobFlag(),
			{Name: "run", Arg: "RUN", Usage: "from this earlier job, also if it was moved aside: elastic ckpt ls"},
			{Name: "dry-run", Kind: command.Boolean, Usage: "list who has what; change nothing", Once: true}}}
}

func recoverAction(ctx context.Context, c *command.Call) error {
	s, name, err := openNamed(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	wait := leasesEnd
	if c.Truth("dry-run") {
		wait = 0
	}
	snap, err := readUnused(ctx, s, name, wait)
	if err != nil {
		return err
	}
	kept, err := target.KeptOf(c, name)
	if err != nil {
		return err
	}
	if c.Truth("dry-run") {
		return listKept(c, &snap, kept)
	}
	run := c.Setting("run").Text
	if run != "" && !schema.ValidName(run) {
		return problem.New(problem.Usage, "%q is no run", run).Cure("elastic ckpt ls %s lists them", name)
	}
	if err := recoverable(&snap, kept, name); err != nil && (run == "" || len(snap.Nodes) > 0) {
		return err
	}
	if err := (txn.Requests{Store: s, Job: name}).AllowResume(ctx, &snap, schema.UID(run)); err != nil {
		return err
	}
	if c.Out.Json {
		return c.Out.Object(map[string]any{"job": name, "recovering": true})
	}
	return c.Out.Line("job %s may go on: start its nodes as usual. The first world begins from the newest "+
		"checkpoint that they bring", name)
}

const (
	// leasesEnd is how long nodes of a store that was set back may still be registered, although no agent
	// renews their leases.
	leasesEnd = 6 * time.Second
	lookEvery = 300 * time.Millisecond
)

// readUnused reads the job, which may be gone. It waits until no node is registered, but for limit at most.
func readUnused(
	ctx context.Context, s *target.Server, name schema.Job, limit time.Duration,
) (snap rendezvous.Snapshot, err error) {
	for began := time.Now(); ; {
		snap, err = target.ReadJob(ctx, s, name)
		var none *problem.Error
		if errors.As(err, &none) && none.Code == problem.JobNone {
			return snap, nil
		}
		if err != nil || len(snap.Nodes) == 0 || time.Since(began) > limit {
			return snap, err
		}
		select {
		case <-ctx.Done():
			return snap, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// recoverable returns the reason for which there is nothing to recover; nil: there is something.
func recoverable(snap *rendezvous.Snapshot, kept []disk.Kept, name schema.Job) error {
	if snap.Job == nil {
		return nil
	}
	if len(snap.Nodes) > 0 {
		var nodes []string
		for _, n := range snap.Nodes {
			nodes = append(nodes, n.Node)
		}
		return problem.New(problem.JobLive, "job %s has %s: %s", name, phrase.Count(len(nodes), "node"),
			phrase.List(nodes)).Because("they go on from what the server shows").
			Cure("if it shows too little: elastic stop %s, and this command again", name).Detail("nodes", nodes)
	}
	for _, k := range kept {
		m := rendezvous.Memory{Known: k.Newest}
		if k.Job == nil || k.Aside {
			continue
		}
		if m.Job = *k.Job; !snap.Job.Same(k.Job) || m.Ahead(snap) || k.Generation > snap.Fence {
			return nil
		}
	}
	return problem.New(problem.Usage, "this machine knows no more of job %s than the server", name).
		Because("the server shows it at generation %d", snap.Fence).
		Cure("start its nodes as usual; or give this command on a machine that knows more")
}

// listKept prints which checkpoints this machine has, and which the registered nodes brought.
func listKept(c *command.Call, snap *rendezvous.Snapshot, kept []disk.Kept) error {
	type row struct {
		Node   string            `json:"node"`
		Number checkpoint.Number `json:"number"`
		Step   *int64            `json:"step"`
		Run    schema.UID        `json:"run"`
		Server string            `json:"server"`
		Where  string            `json:"where"` // here, aside, brought
	}
	all := []row{}
	table := [][]string{{"NODE", "CHECKPOINT", "STEP", "RUN", "SERVER", "WHERE"}}
	add := func(r row) {
		all = append(all, r)
		table = append(table, []string{r.Node, fmt.Sprint(r.Number), screen.Known(r.Step), string(r.Run),
			r.Server, r.Where})
	}
	for _, k := range kept {
		if k.Newest.Number == 0 {
			continue
		}
		where := "here"
		if k.Aside {
			where = "aside"
		}
		add(row{k.Node, k.Newest.Number, k.Newest.Step, k.UID, k.Server, where})
	}
	for _, b := range snap.Brought {
		if snap.Node(b.Node) != nil {
			add(row{b.Node, b.Head.Number, b.Head.Step, b.From, "-", "brought"})
		}
	}
	if c.Out.Json {
		return c.Out.Object(all)
	}
	return c.Out.Table(table)
}
