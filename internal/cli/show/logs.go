package show

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/store"
)

// Logs is the command that prints the output of workers.
func Logs() command.Command {
	return command.Command{Name: "logs", Args: "[JOB]", Most: 1, Usage: "what the workers of all nodes wrote",
		Action: logsAction, Flags: []command.Flag{
			command.JobFlag(),
			{Name: "follow", Short: "f", Kind: command.Boolean, Usage: "go on until the job ends"},
			{Name: "rank", Arg: "RANKS", Usage: "of these ranks only, as 0,4-7"},
			{Name: "node", Arg: "NODE", Usage: "of this node only"},
			{Name: "gen", Arg: "N|all", Usage: "of this generation (the newest)"},
			{Name: "since", Arg: "10m|TIME|GEN",
				Usage: "of this time and later, of all generations; or of this generation and later ones"},
			{Name: "timestamps", Kind: command.Boolean, Usage: "print when each line was written"},
			{Name: "tail", Short: "n", Arg: "N", Usage: "the last lines of each rank (all)"},
			{Name: "first-failure", Kind: command.Boolean,
				Usage: "of the rank that caused the newest failure"},
			{Name: "no-fold", Kind: command.Boolean, Usage: "print a line of several ranks once for each"},
		}}
}

// reading is one run of `elastic logs`.
type reading struct {
	*command.Call
	snap   *rendezvous.Snapshot
	query  logs.Query
	follow bool
	single bool // only one rank was asked for: its lines have no prefix
	stamps bool // print the time of each line
	// timeless are nodes of whose lines no times are known, and that the user was told of.
	timeless map[string]bool
	to       func(membership.Ref) http.RoundTripper
}

func logsAction(ctx context.Context, c *command.Call) error {
	r := &reading{Call: c, follow: c.Truth("follow"), stamps: c.Truth("timestamps"),
		timeless: map[string]bool{}}
	if err := r.wanted(); err != nil {
		return err
	}
	s, snap, err := target.OpenJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	r.snap = &snap
	if err := r.unknown(); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	secret, err := rendezvous.ReadSecret(ctx, s, snap.Job.Name, snap.Job.UID)
	if err != nil {
		return err
	}
	to, hangUp, err := node.Dial(secret, snap.Job.Name, snap.Job.Identity())
	if err != nil {
		return err
	}
	defer hangUp()
	r.to = to
	if r.follow {
		return r.followLogs(ctx, s)
	}
	return r.once(ctx, s)
}

// wanted reads the flags.
func (r *reading) wanted() error {
	if s := r.Setting("rank"); s.Given {
		ranks, ok := logs.ParseRanks(s.Text)
		if !ok {
			return s.Refuse("ranks are numbers and spans, as 0,4-7")
		}
		r.query.Ranks, r.single = ranks, len(ranks) == 1
	}
	if s := r.Setting("gen"); s.Given && s.Text != "all" {
		g, err := strconv.ParseUint(s.Text, 10, 64)
		if err != nil || g == 0 {
			return s.Refuse("the number of a generation, or all")
		}
		r.query.Generation = g
	}
	if err := r.since(); err != nil {
		return err
	}
	var err error
	if r.query.Last, err = r.Setting("tail").Number(0, 1); err != nil {
		return err
	}
	if r.Truth("first-failure") && (r.query.Ranks != nil || r.Setting("gen").Given) {
		return problem.New(problem.Usage, "--first-failure names the rank and the generation itself").
			Cure("leave --rank and --gen out")
	}
	return nil
}

// settle completes the query with the generation and ranks that the job has.
func (r *reading) settle() error {
	r.query.Job, r.query.Since = string(r.snap.Job.Name), r.snap.Job.Time
	switch {
	case r.Truth("first-failure"):
		f := status.LastFailure(r.snap)
		if f == nil {
			return problem.New(problem.Failed, "no worker of job %s has failed", r.snap.Job.Name)
		}
		r.query.Ranks, r.query.Generation, r.single = []int{f.Rank}, uint64(f.Generation), true
		r.Out.Say("generation %d: %s", f.Generation, f.Text)
	case r.Setting("gen").Given || r.Setting("since").Given || r.snap.World == nil:
	case r.follow:
		r.query.From = uint64(r.snap.World.Generation)
	default:
		r.query.Generation = uint64(r.snap.World.Generation)
	}
	return nil
}

// once prints the lines that exist now.
func (r *reading) once(ctx context.Context, s store.Store) error {
	all, err := r.sources()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var lines []logs.Line
	unread := r.missing(all)
	var readers sync.WaitGroup
	for _, from := range all {
		readers.Go(func() {
			err := from.read(ctx, r.query, func(l logs.Line) error {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, l)
				return nil
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				unread = append(unread, from.node)
				r.unread(from.node, err)
			}
		})
	}
	readers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(lines) == 0 && r.Truth("first-failure") {
		if lines, err = r.kept(ctx, s); err != nil {
			return err
		}
	}
	if names := r.missing(all); len(names) > 0 && len(lines) == 0 {
		r.Out.Say("these nodes are not registered: %s; their logs are on their disks", phrase.List(names))
	}
	switch {
	case len(lines) == 0 && len(unread) > 0:
		return problem.New(problem.Failed, "no line could be read").
			Because("the logs are on the disks of %s", phrase.List(unread)).
			Cure("elastic logs %s on one of these machines", r.snap.Job.Name)
	case len(lines) == 0:
		r.Out.Say("no lines")
	}
	return r.print(lines)
}
