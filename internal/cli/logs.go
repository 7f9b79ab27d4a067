package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

func logsCommand() command {
	return command{name: "logs", args: "[JOB]", most: 1, usage: "what the workers of all nodes wrote", action: logsAction, flags: []flag{
		jobFlag(),
		{name: "follow", short: "f", kind: boolean, usage: "go on until the job ends"},
		{name: "rank", arg: "RANKS", usage: "of these ranks only, as 0,4-7"},
		{name: "gen", arg: "N|all", usage: "of this generation (the newest)"},
		{name: "tail", short: "n", arg: "N", usage: "the last lines of each rank (all)"},
		{name: "first-failure", kind: boolean, usage: "of the rank that failed first, in its last generation"},
		{name: "no-fold", kind: boolean, usage: "a line that several ranks wrote once for each"},
	}}
}

// reading is one `elastic logs` on its way.
type reading struct {
	*call
	snap   *rendezvous.Snapshot
	query  logs.Query
	follow bool
	single bool // one rank was asked for: its lines stand alone
	to     func(membership.Ref) http.RoundTripper
}

func logsAction(ctx context.Context, c *call) error {
	r := &reading{call: c, follow: c.context.Bool("follow")}
	if err := r.wanted(); err != nil {
		return err
	}
	s, name, err := c.jobServer(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := c.job(ctx, s, name, true)
	if err != nil {
		return err
	}
	r.snap = &snap
	if err := r.settle(); err != nil {
		return err
	}
	secret, err := rendezvous.ReadSecret(ctx, s, snap.Job.Name, snap.Job.UID)
	if err != nil {
		return err
	}
	to, hangUp, err := node.Dial(secret, snap.Job.Name, snap.Job.UID)
	if err != nil {
		return err
	}
	defer hangUp()
	r.to = to
	if r.follow {
		return r.following(ctx, s)
	}
	return r.once(ctx)
}

// wanted reads the flags.
func (r *reading) wanted() error {
	if s := r.setting("rank"); s.given {
		ranks, ok := logs.ParseRanks(s.text)
		if !ok {
			return s.refuse("ranks are numbers and spans, as 0,4-7")
		}
		r.query.Ranks, r.single = ranks, len(ranks) == 1
	}
	if s := r.setting("gen"); s.given && s.text != "all" {
		g, err := strconv.ParseUint(s.text, 10, 64)
		if err != nil || g == 0 {
			return s.refuse("the number of a generation, or all")
		}
		r.query.Generation = g
	}
	var err error
	if r.query.Last, err = r.setting("tail").number(0, 1); err != nil {
		return err
	}
	if r.follow && r.query.Last > 0 {
		return fail(Usage, "--tail and --follow do not go together").cure("one of them")
	}
	if r.context.Bool("first-failure") && (r.query.Ranks != nil || r.setting("gen").given) {
		return fail(Usage, "--first-failure names the rank and the generation itself").cure("leave --rank and --gen out")
	}
	return nil
}

// settle completes the query by what the job says.
func (r *reading) settle() error {
	r.query.Job, r.query.Since = string(r.snap.Job.Name), r.snap.Job.Time
	switch {
	case r.context.Bool("first-failure"):
		f := status.LastFailure(r.snap)
		if f == nil {
			return fail(Failed, "no worker of job %s has failed", r.snap.Job.Name)
		}
		r.query.Ranks, r.query.Generation, r.single = []int{f.Rank}, uint64(f.Generation), true
		r.out.say("generation %d: %s", f.Generation, f.Text)
	case r.setting("gen").given || r.snap.World == nil:
	case r.follow:
		r.query.From = uint64(r.snap.World.Generation)
	default:
		r.query.Generation = uint64(r.snap.World.Generation)
	}
	return nil
}

// source is the logs of one node.
type source struct {
	key  string // one life of a node
	node string
	read func(context.Context, logs.Query, func(logs.Line) error) error
}

// sources are the nodes of this machine, whose logs are files, and the others that are registered.
func (r *reading) sources() (all []source, err error) {
	kept, err := r.kept(r.snap.Job.Name, r.snap.Job.UID)
	if err != nil {
		return nil, err
	}
	here := map[string]bool{}
	for _, k := range kept {
		dir, err := k.Logs()
		if err != nil || dir == "" {
			continue
		}
		here[k.Node] = true
		all = append(all, source{"here/" + k.Node, k.Node, func(ctx context.Context, q logs.Query, emit func(logs.Line) error) error {
			return logs.Read(ctx, dir, q, func(l logs.Line) error {
				if l.Node != k.Node { // the directory was another node's before
					return nil
				}
				return emit(l)
			})
		}})
	}
	for _, n := range r.snap.Nodes {
		if here[n.Node] {
			continue
		}
		all = append(all, source{string(n.Incarnation), n.Node, func(ctx context.Context, q logs.Query, emit func(logs.Line) error) error {
			return logs.Fetch(ctx, r.to(n.Ref), q, emit)
		}})
	}
	return all, nil
}

// missing names the members of the newest world whose logs cannot be read from here.
func (r *reading) missing(all []source) (names []string) {
	if r.snap.World == nil {
		return nil
	}
	for _, m := range r.snap.World.Members {
		if !slices.ContainsFunc(all, func(s source) bool { return s.node == m.Node }) {
			names = append(names, m.Node)
		}
	}
	return names
}

func (r *reading) unread(node string, err error) {
	r.out.say("the logs of node %s cannot be read: %v; they are on its disk", node, err)
}

// once prints what there is.
func (r *reading) once(ctx context.Context) error {
	all, err := r.sources()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var lines []logs.Line
	var readers sync.WaitGroup
	for _, s := range all {
		readers.Go(func() {
			err := s.read(ctx, r.query, func(l logs.Line) error {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, l)
				return nil
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				r.unread(s.node, err)
			}
		})
	}
	readers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if names := r.missing(all); len(names) > 0 {
		r.out.say("not here, and not registered: %s; their logs are on their disks", phrase.List(names))
	}
	if len(lines) == 0 {
		r.out.say("no lines")
	}
	return r.print(lines)
}

// print writes lines of several ranks as one stream, one generation after the other.
func (r *reading) print(lines []logs.Line) error {
	if r.out.json {
		for _, l := range lines {
			if err := r.out.object(l); err != nil {
				return err
			}
		}
		return nil
	}
	of := map[uint64]map[int][]string{}
	var generations []uint64
	for _, l := range lines {
		if of[l.Generation] == nil {
			of[l.Generation] = map[int][]string{}
			generations = append(generations, l.Generation)
		}
		of[l.Generation][l.Rank] = append(of[l.Generation][l.Rank], l.Text)
	}
	slices.Sort(generations)
	for _, g := range generations {
		for _, f := range r.folded(of[g]) {
			if err := r.printLine(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reading) folded(of map[int][]string) []logs.Folded {
	if !r.context.Bool("no-fold") {
		return logs.Fold(of)
	}
	var all []logs.Folded
	for rank, lines := range of {
		for _, text := range lines {
			all = append(all, logs.Folded{Ranks: []int{rank}, Text: text})
		}
	}
	slices.SortStableFunc(all, func(a, b logs.Folded) int { return a.Ranks[0] - b.Ranks[0] })
	return all
}

func (r *reading) printLine(f logs.Folded) error {
	switch {
	case r.single:
		return r.out.line("%s", f.Text)
	case len(f.Ranks) == 1:
		return r.out.line("[rank%d]: %s", f.Ranks[0], f.Text)
	}
	return r.out.line("[ranks %s]: %s", logs.Spans(f.Ranks), f.Text)
}

// together is how long lines are gathered before they are folded and shown.
const together = 250 * time.Millisecond

// following prints what comes until the job ends. A node that comes later is read from when it is there.
func (r *reading) following(ctx context.Context, s *server) error {
	r.out.say("following job %s until it ends", r.snap.Job.Name)
	ctx, cancel := context.WithCancel(ctx)
	var readers sync.WaitGroup
	lines := make(chan logs.Line, 256)
	over := make(chan error, 1)
	known := map[string]bool{}
	go func() {
		err := r.call.follow(ctx, s, r.snap, func(snap *rendezvous.Snapshot) (bool, error) {
			r.snap = snap
			return ended(snap), r.readNew(ctx, &readers, known, lines)
		})
		if err == nil {
			_ = pause(ctx, 4*together) // what was written last is on its way
		}
		cancel()
		readers.Wait()
		over <- err
	}()
	tick := time.NewTicker(together)
	defer tick.Stop()
	var batch []logs.Line
	for {
		select {
		case l := <-lines:
			batch = append(batch, l)
			continue
		case <-tick.C:
			if err := r.print(batch); err != nil {
				cancel()
				<-over
				return err
			}
			batch = batch[:0]
		case err := <-over:
			return errors.Join(r.print(batch), err)
		}
	}
}

// readNew begins to read the nodes that are not read yet.
func (r *reading) readNew(ctx context.Context, readers *sync.WaitGroup, known map[string]bool, lines chan<- logs.Line) error {
	all, err := r.sources()
	if err != nil {
		return err
	}
	query := r.query
	query.Follow = true
	for _, s := range all {
		if known[s.key] {
			continue
		}
		known[s.key] = true
		readers.Go(func() {
			err := s.read(ctx, query, func(l logs.Line) error {
				select {
				case lines <- l:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			if err != nil && ctx.Err() == nil && !errors.Is(err, logs.ErrCut) {
				r.unread(s.node, err)
			}
		})
	}
	return nil
}
