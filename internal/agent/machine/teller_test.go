package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// teller plays the world around one Machine, that of node a: the store as one snapshot, its own
// requests that wait for their end, and the clock. A line of a story is one of
//
//	job NP [min N] [restarts N] [grace D] [last-call D]    the job that a comes to
//	enters                           the end of Enter: a is registered, as a1, then a2, …
//	NODE joins|rejoins|expires|leaves|ready [stopped D ago]|saved|exits CODE|fails CODE
//	                                 the store shows that of another node
//	WATCHER suspects|clears NODE     likewise
//	scaled N · asked to stop · asked to go NODE       the wish
//	committed N by NODE…             the head
//	proposed G: NODE… [leaving NODE…] · holds WHY TEXT… · holds saving REASON TEXT… ·
//	runs · finishing · done · failed · stopped          the step of another keeper
//	ok SLOT · moved SLOT · lost SLOT   the end of a request of a: applied, overtaken, no answer
//	ok ready at once                 applied as soon as it was asked; else it was sent long ago
//	unseen                           what the lines before say has happened, and a has not heard of it
//	keep NAME · late NAME            the snapshot as it is; it comes now, late
//	worker CODE · workers gone       a's own workers
//	workers can stay · workers left [without state] · workers hang
//	                                 those with the helper's training function
//	heard NODE silent|closed|again   what the watch over other nodes saw
//	peer-generation G                a peer knows generation G
//	dialled NODE no-answer|refused|same|other [holds NODE…]
//	renewed · renewal lost|unanswered   the lease of a
//	store away                       the follower has no answer
//	SIGTERM · SIGINT                 the supervisor, the user
//	after D                          time passes, with a tick every quarter of a second
//	stands still D                   a does not run; then it goes on
type teller struct {
	m     *Machine
	now   time.Time
	lives map[string]int
	s     rendezvous.Snapshot
	job   rendezvous.Job
	rev   int64
	gone  bool // the machine has quit
	moved bool // the machine has not seen the store yet
	quick bool // the request was answered at once
	kept  map[string]rendezvous.Snapshot
	wait  map[string]message.Action // by slot
	read  time.Time                 // when Read was asked
	said  strings.Builder
}

func newTeller() *teller {
	w := &teller{now: begin, lives: map[string]int{}, kept: map[string]rendezvous.Snapshot{},
		wait: map[string]message.Action{}, rev: 1}
	w.s = rendezvous.Snapshot{Whole: true, Cluster: 1, Ready: map[string]rendezvous.Ready{},
		Exits: map[string]rendezvous.Exit{}, Held: map[string]rendezvous.Held{},
		Missed: map[membership.Incarnation]bool{}}
	return w
}

// transcript returns what was done since the last call, and the state. It first delivers the state
// of the store.
func (w *teller) transcript() string {
	if w.moved {
		w.see(w.copy(), false)
	}
	if !w.gone {
		fmt.Fprintf(&w.said, "am   %s\n", w.state())
	}
	defer w.said.Reset()
	return w.said.String()
}

func (w *teller) line(text string) error {
	f := strings.Fields(text)
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	switch f[0] {
	case "unseen", "keep", "late", "job":
	case "enters", "ok", "moved", "lost", "worker", "workers", "heard", "peer-generation", "dialled",
		"renewed", "renewal", "store", "SIGTERM", "SIGINT", "after", "stands":
		if w.moved && f[0] != "stands" {
			w.see(w.copy(), false)
		}
		if w.m.workers.Group == nil && strings.HasPrefix(f[0], "worker") {
			return errors.New("it has no workers")
		}
	}
	switch f[0] {
	case "job":
		return w.begins(f[1:])
	case "enters":
		return w.ends("enter", nil)
	case "ok":
		w.quick = arg(2) == "at"
		return w.ends(arg(1), nil)
	case "moved":
		return w.ends(arg(1), store.ErrMoved)
	case "lost":
		return w.ends(arg(1), errors.New("no answer"))
	case "unseen":
		w.moved = false
	case "keep":
		w.kept[arg(1)] = w.copy()
	case "late":
		s, ok := w.kept[arg(1)]
		if !ok {
			return errors.New("nothing was kept by that name")
		}
		w.moved = false
		w.see(s, false)
	case "worker":
		code, err := strconv.Atoi(arg(1))
		x := message.WorkerExit{Code: code}
		if code > 128 {
			x.Signal = "SIGKILL"
		}
		w.give(message.Exited{Generation: w.m.workers.Group.World.Generation, WorkerExit: x})
		return err
	case "workers":
		g := w.m.workers.Group.World.Generation
		switch arg(1) {
		case "can":
			w.give(message.Staying{Generation: g, Can: true})
		case "left":
			w.give(message.Paused{Generation: g, Held: heldStep(arg(2))})
		case "hang":
			w.give(message.Paused{Generation: g, Err: errors.New("no answer")})
		default:
			w.give(message.Halted{Generation: g})
		}
	case "peer-generation":
		g, err := strconv.Atoi(arg(1))
		w.give(message.Signaled{Signal: membership.Signal{
			Answer: membership.Answer{Generation: schema.Generation(g)}}})
		return err
	case "heard":
		sign := map[string]membership.Sign{"silent": membership.Silent,
			"closed": membership.ConnectionClosed}[arg(2)]
		kind := map[string]membership.AnswerKind{"closed": membership.Refused,
			"again": membership.Same}[arg(2)]
		w.give(message.Signaled{Signal: membership.Signal{Ref: w.ref(arg(1)), Sign: sign,
			Answer: membership.Answer{Kind: kind}}})
	case "dialled":
		kinds := map[string]membership.AnswerKind{"no-answer": membership.NoAnswer,
			"refused": membership.Refused, "same": membership.Same, "other": membership.Other}
		kind, ok := kinds[arg(2)]
		if !ok {
			return fmt.Errorf("no answer is called %q", arg(2))
		}
		e := message.Probed{About: w.ref(arg(1)), Answer: membership.Answer{Kind: kind}}
		if arg(3) == "holds" {
			e.Holds = f[4:]
		}
		w.give(e)
	case "renewed":
		w.give(message.Renewed{Lease: w.m.self.node.Lease, Sent: w.now})
	case "renewal":
		err := map[string]error{"lost": store.ErrLeaseLost, "unanswered": errors.New("no answer")}[arg(1)]
		w.give(message.Renewed{Lease: w.m.self.node.Lease, Sent: w.now, Err: err})
	case "store":
		w.give(message.StoreRead{Update: follow.Update{Err: errors.New("no answer")}})
	case "SIGTERM":
		w.give(message.Asked{Leaving: message.Leaving{Reason: membership.Terminated, Status: 75}})
	case "SIGINT":
		w.give(message.Asked{Leaving: message.Leaving{Reason: membership.Interrupted, Status: 130,
			Now: arg(1) == "again"}})
	case "after", "stands":
		d, err := time.ParseDuration(f[len(f)-1])
		if err != nil {
			return err
		}
		w.pass(d, f[0] == "stands")
	default:
		w.moved = true
		w.rev++
		return w.shows(f)
	}
	return nil
}

func (w *teller) begins(f []string) error {
	np, err := strconv.Atoi(f[0])
	if err != nil {
		return err
	}
	w.job = rendezvous.Job{Name: "x", UID: "u", Attempt: 1,
		Limits: rendezvous.Limits{Min: np, Max: np, Exact: true}, Slots: 1,
		Base:  scaling.Base{Nodes: np, Slots: 1},
		Rules: rendezvous.Rules{MaxRestarts: 3, Grace: rendezvous.Seconds(30 * time.Second)}, Rev: 1}
	for i := 1; i+1 < len(f); i += 2 {
		switch f[i] {
		case "restarts":
			w.job.Rules.MaxRestarts, err = strconv.Atoi(f[i+1])
		case "min": // and not exactly np
			w.job.Limits.Min, err = strconv.Atoi(f[i+1])
			w.job.Limits.Exact = false
		case "grace":
			err = setSeconds(&w.job.Rules.Grace, f[i+1])
		case "last-call":
			err = setSeconds(&w.job.Rules.LastCall, f[i+1])
		}
		if err != nil {
			return err
		}
	}
	w.s.Job = &w.job
	w.s.Wish = rendezvous.Wish{NP: np, Request: "r1", By: "run", Rev: 1}
	w.m = New(Config{LeaseTTL: 3 * time.Second, Times: plan.DefaultTimeouts, Warm: slices.Contains(f, "warm")}, w.now)
	w.give(message.Ticked{})
	return nil
}

func setSeconds(to *rendezvous.Seconds, text string) error {
	d, err := time.ParseDuration(text)
	*to = rendezvous.Seconds(d)
	return err
}

// give passes an event to the machine, and records the actions.
func (w *teller) give(e message.Event) {
	if w.gone {
		return
	}
	for _, a := range w.m.Decide(e, w.now) {
		w.does(a)
	}
}

// pass lets time pass; if still, without ticks.
func (w *teller) pass(d time.Duration, still bool) {
	end := w.now.Add(d)
	for step := Tick; !still && w.now.Add(step).Before(end); {
		w.now = w.now.Add(step)
		w.during(end.Add(-d))
	}
	w.now = end
	w.during(end.Add(-d))
}

// during is one tick. Its actions are recorded with the time since from.
func (w *teller) during(from time.Time) {
	old := w.said.String()
	w.said.Reset()
	w.give(message.Ticked{})
	done := w.said.String()
	w.said.Reset()
	w.said.WriteString(old)
	for line := range strings.Lines(done) {
		fmt.Fprintf(&w.said, "%s  (after %s)\n", strings.TrimRight(line, "\n"), w.now.Sub(from))
	}
}

// see passes the state of the store to the machine.
func (w *teller) see(s rendezvous.Snapshot, asked bool) {
	w.moved = false
	begun := time.Time{}
	if asked {
		begun = w.read
		n := s.Node("a")
		s.Nodes, s.Whole = nil, false
		if n != nil {
			s.Nodes = []membership.Node{*n}
		}
	}
	w.give(message.StoreRead{Update: follow.Update{Snapshot: s, Begun: begun}, Asked: asked})
}

// copy returns a snapshot that later changes do not affect.
func (w *teller) copy() rendezvous.Snapshot {
	s := w.s
	s.Rev = w.rev
	s.Nodes, s.Left, s.Suspects = slices.Clone(s.Nodes), slices.Clone(s.Left), slices.Clone(s.Suspects)
	if s.World != nil {
		world := *s.World
		s.World = &world
	}
	ready, exits := map[string]rendezvous.Ready{}, map[string]rendezvous.Exit{}
	for n, r := range s.Ready {
		ready[n] = r
	}
	for n, x := range s.Exits {
		exits[n] = x
	}
	s.Ready, s.Exits = ready, exits
	return s
}

// ref returns the present or last incarnation of a node in the store.
func (w *teller) ref(node string) membership.Ref {
	life := fmt.Sprintf("%s%d", node, max(1, w.lives[node]))
	return membership.Ref{Node: node, Incarnation: membership.Incarnation(life), Address: node + ":1"}
}

func (w *teller) refs(nodes []string) (refs []membership.Ref) {
	for _, n := range nodes {
		refs = append(refs, w.ref(n))
	}
	return refs
}

func (w *teller) register(node string) membership.Node {
	n := membership.Node{Ref: w.ref(node), Attempt: w.job.Attempt, Slots: 1, Rev: w.rev,
		Lease: store.Lease(w.rev)}
	w.remove(node)
	w.s.Nodes = append(w.s.Nodes, n)
	slices.SortFunc(w.s.Nodes, func(a, b membership.Node) int { return strings.Compare(a.Node, b.Node) })
	return n
}

func (w *teller) remove(node string) {
	w.s.Nodes = slices.DeleteFunc(slices.Clone(w.s.Nodes),
		func(n membership.Node) bool { return n.Node == node })
	w.s.Suspects = slices.DeleteFunc(slices.Clone(w.s.Suspects),
		func(s membership.Suspicion) bool { return s.By == node })
}

// shows changes the store as other nodes do.
func (w *teller) shows(f []string) error {
	w.s = w.copy()
	world := w.s.World
	ofWorlds := []string{"committed", "holds", "runs", "finishing", "done", "failed", "stopped"}
	if world == nil && slices.Contains(ofWorlds, f[0]) {
		return errors.New("there is no world")
	}
	phase := func(p rendezvous.Phase) { world.Phase, world.Rev = p, w.rev }
	switch strings.Join(f[:min(2, len(f))], " ") {
	case "asked to":
		w.s.Wish.Request, w.s.Wish.Rev = fmt.Sprintf("r%d", w.rev), w.rev
		if f[2] == "stop" {
			w.s.Wish.Stop, w.s.Wish.By = w.job.Attempt, "stop"
		} else {
			w.s.Wish.Drain, w.s.Wish.By = f[3:], "drain"
		}
		return nil
	}
	switch f[0] {
	case "scaled":
		np, err := strconv.Atoi(f[1])
		w.s.Wish.NP, w.s.Wish.Request, w.s.Wish.By, w.s.Wish.Rev = np, fmt.Sprintf("r%d", w.rev), "scale", w.rev
		return err
	case "committed":
		n, err := strconv.Atoi(f[1])
		w.s.Head = checkpoint.Head{Number: checkpoint.Number(n), Generation: world.Generation,
			Holders: w.refs(f[3:]), Rev: w.rev}
		return err
	case "proposed":
		g, err := strconv.Atoi(strings.TrimSuffix(f[1], ":"))
		rest := f[2:]
		var leavers []string
		if i := slices.Index(rest, "leaving"); i >= 0 {
			rest, leavers = rest[:i], rest[i+1:]
		}
		next := rendezvous.World{UID: "u", Generation: schema.Generation(g), Attempt: w.job.Attempt,
			Phase: rendezvous.Forming, Count: len(rest),
			Members: w.refs(rest), Leavers: w.refs(leavers), Slots: 1, Request: w.s.Wish.Request,
			NP: w.s.Wish.NP}
		w.next(next)
		return err
	case "holds":
		h := rendezvous.Hold{Why: rendezvous.Why(f[1]), Present: len(w.s.Nodes),
			Text: strings.Join(f[2:], " "), Cause: rendezvous.CauseNodeLost}
		if h.Why == rendezvous.Saving {
			h.Planned, h.Reason, h.Text, h.Cause = true, f[2], strings.Join(f[3:], " "), rendezvous.CauseScale
		}
		phase(rendezvous.Waiting)
		world.Hold = &h
		for _, m := range world.Members {
			if h.Why == rendezvous.NodesMissing && w.s.Node(m.Node) == nil {
				world.ReportedLost = append(world.ReportedLost, m.Incarnation) // its loss is why it holds
			}
		}
		return nil
	case "runs":
		phase(rendezvous.Running)
		world.Master = &rendezvous.Master{Host: world.Members[0].Node, Port: 1}
		return nil
	case "finishing":
		phase(rendezvous.Finishing)
		return nil
	case "done", "failed", "stopped":
		phase(rendezvous.Phase(f[0]))
		world.Outcome = &rendezvous.Outcome{Code: map[string]int{"failed": 1, "stopped": 93}[f[0]],
			Source: "elastic", Message: "it says so"}
		return nil
	}
	node, verb := f[0], f[1]
	switch verb {
	case "joins", "rejoins":
		if verb == "joins" {
			w.lives[node]++
		}
		w.s.Left = slices.DeleteFunc(w.s.Left, func(l membership.Left) bool { return l.Node == node })
		w.register(node)
	case "expires":
		w.remove(node)
	case "leaves":
		w.remove(node)
		w.s.Left = append(w.s.Left, membership.Left{Node: node, Incarnation: w.ref(node).Incarnation,
			Reason: membership.Terminated})
	case "ready":
		r := rendezvous.Ready{Incarnation: w.ref(node).Incarnation, Rev: w.rev,
			Host: node, Ports: []int{1, 2}}
		if len(f) > 3 {
			d, err := time.ParseDuration(f[3])
			if err != nil {
				return err
			}
			r.AfterMS = new(d.Milliseconds())
		}
		w.s.Ready[node] = r
	case "saved":
		w.s.Exits[node] = rendezvous.Exit{Incarnation: w.ref(node).Incarnation, Codes: []*int{nil},
			Planned: true, Rev: w.rev}
	case "exits":
		code, err := strconv.Atoi(f[2])
		w.s.Exits[node] = rendezvous.Exit{Incarnation: w.ref(node).Incarnation, Rev: w.rev,
			Codes: []*int{&code}}
		return err
	case "fails":
		code, err := strconv.Atoi(f[2])
		w.s.Failure = &rendezvous.Failure{Node: node, Incarnation: w.ref(node).Incarnation,
			Rank: world.Rank(w.ref(node)), Code: code, Rev: w.rev}
		return err
	case "suspects":
		w.s.Suspects = append(w.s.Suspects,
			membership.Suspicion{Node: f[2], By: node, Incarnation: w.ref(f[2]).Incarnation,
				Watcher: w.ref(node).Incarnation, Sign: membership.Silent, Rev: w.rev})
	case "clears":
		w.s.Suspects = slices.DeleteFunc(w.s.Suspects, func(s membership.Suspicion) bool {
			return s.By == node && s.Node == f[2]
		})
	default:
		return fmt.Errorf("%q is not known", verb)
	}
	return nil
}

// next makes a World the newest, as Propose does.
func (w *teller) next(next rendezvous.World) {
	next.Rev = w.rev
	w.s.World, w.s.Fence = &next, next.Generation
	w.s.Ready, w.s.Exits, w.s.Failure, w.s.Progress = map[string]rendezvous.Ready{},
		map[string]rendezvous.Exit{}, nil, nil
	w.s.Suspects = slices.DeleteFunc(w.s.Suspects, func(s membership.Suspicion) bool {
		return next.Rank(membership.Ref{Node: s.Node, Incarnation: s.Incarnation}) < 0
	})
}

// ends ends a request of a: it is applied, or fails with err.
func (w *teller) ends(slot string, err error) error {
	a, ok := w.wait[slot]
	if !ok {
		return fmt.Errorf("no request %q is under way", slot)
	}
	delete(w.wait, slot)
	if err == nil {
		w.rev++
	}
	switch a := a.(type) {
	case message.Enter:
		w.lives["a"]++
		w.s = w.copy()
		n := w.register("a")
		warms := w.m.cfg.Warm && w.s.World != nil && w.s.World.Phase == rendezvous.Running
		w.s.Node("a").Warming = warms
		w.give(message.Entered{Node: n, Job: w.job, Head: w.s.Head, Fence: w.s.Fence, TTL: 3 * time.Second,
			Logs: "log/a", Warms: warms})
		w.moved = true
	case message.Read:
		if err != nil {
			w.give(message.StoreRead{Update: follow.Update{Err: err}, Asked: true})
			return nil
		}
		w.see(w.copy(), true)
	case message.Locate:
		w.give(message.Located{Address: w.m.self.node.Address})
	case message.PublishWarm:
		w.s = w.copy()
		w.s.Node("a").Warming = false
		w.give(message.PublishedWarm{As: a.Me.Incarnation, Err: err})
		w.moved = true
	case message.Register:
		if err != nil {
			w.give(message.Registered{As: a.Node.Incarnation, Err: err})
			return nil
		}
		w.s = w.copy()
		n := w.register("a")
		w.give(message.Registered{As: a.Node.Incarnation, Lease: n.Lease, Rev: n.Rev, TTL: 3 * time.Second})
		w.moved = true
	case message.Take:
		if err != nil {
			w.give(message.Stepped{Err: err})
			return nil
		}
		w.s = w.copy()
		w.apply(a.Step, a.Idle)
		done := message.Stepped{World: *w.s.World}
		if _, reported := a.Step.(plan.ReportLost); reported {
			done = message.Stepped{}
		}
		w.give(done)
		w.moved = true
	case message.GetReady:
		g := a.World.Generation
		if err != nil {
			w.give(message.Readied{Generation: g, Err: err})
			return nil
		}
		w.s = w.copy()
		r := rendezvous.Ready{Incarnation: w.m.self.node.Incarnation, Rev: w.rev,
			Host: "a", Ports: []int{1, 2}}
		if !a.Idle.IsZero() {
			r.AfterMS = new(w.now.Sub(a.Idle).Milliseconds())
		}
		w.s.Ready["a"] = r
		e := message.Readied{Generation: g, Ports: []int{1, 2, 3}, InMemory: a.InMemory}
		if w.quick {
			e.Begun = w.now
		}
		w.give(e)
		w.moved = true
	case message.Remember:
		w.give(message.Remembered{Memory: a.Memory, Err: err})
	case message.StartWorkers:
		w.give(message.Started{Generation: a.World.Generation})
	case message.ContinueWorkers:
		w.give(message.Started{Generation: a.World.Generation})
	case message.CloseSaves:
		w.give(message.Closed{Generation: a.Generation, Err: err})
	case message.ReportExit:
		if err == nil {
			w.s = w.copy()
			x := a.Exit
			x.Rev = w.rev
			w.s.Exits["a"] = x
			w.moved = true
		}
		w.give(message.ExitReported{Generation: a.World.Generation, Rev: w.rev, Exit: a.Exit, Err: err})
	case message.ReportFailures:
		if err == nil {
			w.s = w.copy()
			f := a.Failures[0]
			f.Rev = w.rev
			w.s.Failure = &f
			w.moved = true
		}
		w.give(message.FailureReported{Generation: a.World.Generation, Err: err})
	case message.Suspect:
		if err == nil {
			w.s = w.copy()
			for _, x := range a.Suspicions {
				x.Rev = w.rev
				w.s.Suspects = append(w.s.Suspects, x)
			}
			w.moved = true
		}
		rev := w.rev
		if err != nil {
			rev = 0
		}
		answer := message.Suspected{Rev: rev, Err: err}
		for _, x := range a.Suspicions {
			answer.About = append(answer.About, x.Incarnation)
		}
		w.give(answer)
	case message.Withdraw:
		if err == nil {
			w.s = w.copy()
			w.s.Suspects = slices.DeleteFunc(w.s.Suspects, func(s membership.Suspicion) bool {
				return s.By == "a" &&
					slices.ContainsFunc(a.Suspicions,
						func(x membership.Withdrawal) bool { return s.Node == x.Node })
			})
			w.moved = true
		}
		w.give(message.Withdrawn{Err: err})
	case message.Leave:
		if err == nil {
			w.s = w.copy()
			w.remove("a")
			w.s.Left = append(w.s.Left,
				membership.Left{Node: "a", Incarnation: a.Me.Incarnation, Reason: a.Why})
			w.moved = true
		}
		w.give(message.Left{As: a.Me.Incarnation, Quick: a.Quick, Err: err})
	}
	if w.moved {
		w.see(w.copy(), false)
	}
	return nil
}

// apply carries out a step of the plan, as the requests do.
func (w *teller) apply(step plan.Step, idle time.Duration) {
	switch p := step.(type) {
	case plan.Propose:
		for _, x := range p.Evicted {
			w.remove(x.Node)
		}
		w.next(p.World)
		return
	case plan.Hold:
		w.s.World.Phase, w.s.World.Hold, w.s.World.Ledger = rendezvous.Waiting, &p.Hold, p.Ledger
		for _, x := range p.Lost {
			w.s.World.ReportedLost = append(w.s.World.ReportedLost, x.Incarnation)
		}
	case plan.ReportLost:
		w.s.Missed = maps.Clone(w.s.Missed)
		for _, x := range p.Lost {
			w.s.Missed[x.Incarnation] = true
		}
		return
	case plan.Run:
		w.s.World.Phase, w.s.World.Master = rendezvous.Running, &p.Master
		w.s.World.CountStart(idle)
	case plan.Finish:
		w.s.World.Phase = rendezvous.Finishing
	case plan.End:
		w.s.World.Phase, w.s.World.Hold, w.s.World.Outcome, w.s.World.Ledger = p.Phase, nil, &p.Outcome, p.Ledger
	}
	w.s.World.Rev = w.rev
}

// heldStep is the step of the state that workers report: a number, 9 if text is empty, nil for
// "without".
func heldStep(text string) *int64 {
	if text == "without" {
		return nil
	}
	step, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		step = 9
	}
	return &step
}
