package rendezvous

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Requests makes the transactions of one job (docs/PROTOCOL.md, section 2). Each is harmless when it
// is applied late, also after its sender crashed, froze or came back as somebody else. Each
// returns store.ErrMoved when a guard no longer holds: it was not applied and never will be.
type Requests struct {
	Store store.Store
	Job   schema.Job
}

func (r Requests) send(ctx context.Context, what string, req store.Request) (int64, error) {
	rev, err := store.Send(ctx, r.Store, req)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return rev, nil
}

// sendOn is send for what rests on the job u as it was seen, with g as its newest proposed generation. Revisions do not
// come back in one store, but one that was wiped counts anew: there, only the fence tells the job from the one that was lost.
func (r Requests) sendOn(ctx context.Context, u schema.UID, g schema.Generation, what string, req store.Request) (int64, error) {
	req.If = append([]store.Guard{schema.FenceIs(r.Job, u, g)}, req.If...)
	return r.send(ctx, what, req)
}

// Create makes the job, with its secret and its first wish: never over the claims of those who were in it when the
// store lost it.
func (r Requests) Create(ctx context.Context, j Job) error {
	_, err := r.send(ctx, "create job", store.Request{
		If: []store.Guard{store.Absent(r.Job.Job()), store.NoneBelow(r.Job.AllClaims())},
		Then: []store.Write{
			store.Put(r.Job.Job(), schema.Encode(j)),
			store.Put(r.Job.Secret(), []byte(rand.Text()+rand.Text())),
			store.Put(r.Job.Wish(), schema.Encode(firstWish(j))),
			store.Put(r.Job.Fence(), []byte(schema.FenceValue(j.UID, 0))),
			history.Tell(r.Job, history.Event{Kind: history.JobCreated, Text: "job created",
				Fields: history.Fields{"np": j.Limits.Max, "min": j.Limits.Min, "max": j.Limits.Max, "nproc_per_node": j.Slots}}),
		},
	})
	return err
}

// Reopen begins a new attempt of a job that had failed or was stopped when this agent came: of that very
// world, once. j carries the settings of this agent.
func (r Requests) Reopen(ctx context.Context, seen *Snapshot, j Job) error {
	j.UID, j.Attempt = seen.Job.UID, seen.Job.Attempt+1
	j.Succeeds, j.Lineage, j.Adopted = seen.Job.Succeeds, seen.Job.Lineage, seen.Job.Adopted
	_, err := r.sendOn(ctx, j.UID, seen.Fence, "open a new attempt", store.Request{
		If: []store.Guard{
			store.Unchanged(r.Job.Job(), seen.Job.Rev),
			store.Unchanged(r.Job.Wish(), seen.Wish.Rev),
			store.Unchanged(r.Job.World(), seen.World.Rev),
		},
		Then: []store.Write{
			store.Put(r.Job.Job(), schema.Encode(j)),
			store.Put(r.Job.Wish(), schema.Encode(firstWish(j))),
		},
	})
	return err
}

func firstWish(j Job) Wish {
	return Wish{NP: j.Limits.Max, Request: rand.Text(), By: "run", Time: time.Now()}
}

// tombs are the words that a job was removed, for who still has something of it.
func (r Requests) tombs(j *Job) []store.Write {
	now := []byte(time.Now().UTC().Format(history.TimeFormat))
	tombs := []store.Write{store.Put(r.Job.Removed(j.UID), now)}
	for _, u := range j.before() {
		tombs = append(tombs, store.Put(r.Job.Removed(u), now))
	}
	return tombs
}

// Remove deletes everything of a job without nodes.
func (r Requests) Remove(ctx context.Context, seen *Snapshot) error {
	j := seen.Job
	res, err := r.Store.Txn(ctx, store.Txn{
		If:   []store.Guard{store.NoneBelow(r.Job.Nodes()), store.Unchanged(r.Job.Job(), j.Rev), schema.FenceIs(r.Job, j.UID, seen.Fence)},
		Then: append([]store.Write{store.DeleteRange(r.Job.Prefix(), store.End(r.Job.Prefix()))}, r.tombs(j)...),
	})
	if err != nil {
		return fmt.Errorf("remove job: %w", err)
	}
	if !res.OK {
		return fmt.Errorf("remove job: %w", store.ErrMoved)
	}
	return nil
}

// Ask writes a wish over the one that was seen. It returns the wish with its request id.
func (r Requests) Ask(ctx context.Context, seen *Snapshot, w Wish) (Wish, error) {
	previous := seen.Wish.NP
	w.Request, w.Time = rand.Text(), time.Now()
	text := map[string]string{"scale": fmt.Sprintf("np %d was asked, it was %d", w.NP, previous),
		"drain": "asked to go: " + strings.Join(w.Drain, ", "), "stop": "the job was asked to stop"}[w.By]
	var worldRev int64
	var g schema.Generation
	if seen.World != nil {
		worldRev, g = seen.World.Rev, seen.World.Generation
	}
	rev, err := r.sendOn(ctx, seen.Job.UID, seen.Fence, "write the wish", store.Request{
		If: []store.Guard{store.Unchanged(r.Job.Wish(), seen.Wish.Rev), store.Unchanged(r.Job.World(), worldRev)},
		Then: []store.Write{
			store.Put(r.Job.Wish(), schema.Encode(w)),
			history.Tell(r.Job, history.Event{Kind: history.WishChanged, Generation: g, Text: text,
				Fields: history.Fields{"np": w.NP, "previous_np": previous, "by": w.By}}),
		},
	})
	w.Rev = rev
	return w, err
}

// Propose makes the next generation. From here on no commit of an older one succeeds.
func (r Requests) Propose(ctx context.Context, seen *Snapshot, me membership.Node, p Propose) (World, error) {
	w := p.World
	w.Proposal, w.Time = fmt.Sprintf("%012d-%s", w.Generation, rand.Text()), time.Now()
	var worldRev int64
	var old schema.Generation
	if seen.World != nil {
		worldRev, old = seen.World.Rev, seen.World.Generation
	}
	if w.Count > inline {
		if err := r.putMembers(ctx, &w); err != nil {
			return World{}, err
		}
	}
	guards := []store.Guard{
		store.Unchanged(r.Job.World(), worldRev),
		store.Unchanged(r.Job.Job(), seen.Job.Rev),
		store.Unchanged(r.Job.Head(), seen.Head.Rev), // a commit between plan and propose would be lost
		store.Unchanged(r.Job.Node(me.Node), me.Rev),
	}
	if seen.World != nil {
		// The last worker's exit may land now: a job that all ranks finished must not start again.
		guards = append(guards, store.NoneNewer(r.Job.Exits(old), seen.Rev))
	}
	writes := []store.Write{
		store.Put(r.Job.World(), w.record()),
		store.Put(r.Job.Fence(), []byte(schema.FenceValue(w.UID, w.Generation))),
		store.DeleteRange(r.Job.AllReady(), schema.Before(r.Job.AllReady(), w.Generation)),
		store.DeleteRange(r.Job.AllExits(), schema.Before(r.Job.AllExits(), w.Generation-1)),
		store.DeleteRange(r.Job.AllFailures(), schema.Before(r.Job.AllFailures(), w.Generation-1)),
		store.DeleteRange(r.Job.AllPlans(), schema.Before(r.Job.AllPlans(), w.Generation-1)),
		store.Delete(r.Job.Progress()),
	}
	for _, x := range p.Evicted {
		guards = append(guards, store.Unchanged(r.Job.Node(x.Node), x.Rev))
		writes = append(writes, store.Delete(r.Job.Node(x.Node)))
	}
	for _, x := range p.Dropped { // absent, or another life of the node: else it could register again beside us
		guards = append(guards, store.Unchanged(r.Job.Node(x.Node), x.Rev))
	}
	room := store.MaxOps - len(writes) - 3
	members, before := livesOf(w.Members), lives{}
	if seen.World != nil {
		before = livesOf(slices.Concat(seen.World.Members, seen.World.Leavers))
	}
	for _, x := range seen.Suspects {
		if room > 0 && !members.has(membership.Ref{Node: x.Node, Incarnation: x.Incarnation}) {
			writes = append(writes, store.Delete(r.Job.Suspect(x.Node, x.By)))
			room--
		}
	}
	for _, x := range seen.Left {
		// One that was just written may not have been seen by all: without it they would miss the node.
		if room > 0 && seen.World != nil && x.Rev < seen.World.Rev && !before.has(membership.Ref{Node: x.Node, Incarnation: x.Incarnation}) {
			writes = append(writes, store.Delete(r.Job.Left(x.Node)))
			room--
		}
	}
	events := lostEvents(old, me.Node, p.Lost)
	if p.Failure != nil {
		events = append(events, p.Failure.event(old))
	}
	if h := p.NewHead; h != nil {
		_, kept, head := (&checkpoint.Record{Store: r.Store, Job: r.Job}).Rollback(seen.Head, *p.Older)
		guards, writes = append(guards, kept...), append(writes, head...)
		events = append(events, history.Event{Kind: history.Bad, Generation: old,
			Text:   fmt.Sprintf("checkpoint %d cannot be read on any of its holders: %s is used instead, as checkpoint %d", seen.Head.Number, describe(h), h.Number),
			Fields: history.Fields{"number": seen.Head.Number, "path": nil, "used_instead": h.Number}})
	}
	events = append(events, history.Event{Kind: history.WorldProposed, Generation: w.Generation,
		Text: fmt.Sprintf("generation %d proposed by %s: %s, world size %d", w.Generation, me.Node, counted(w.Count, "node"), w.Size()),
		Fields: history.Fields{"cause": w.Cause, "world_size": w.Size(), "world": w.Layout(), "plan": w.Plan,
			"checkpoint": w.number(), "by": me.Node}})
	writes = append(writes, history.Tell(r.Job, events...))
	rev, err := r.sendOn(ctx, seen.Job.UID, seen.Fence, "propose", store.Request{If: guards, Then: writes})
	w.Rev = rev
	return w, err
}

// membersPerChunk keeps a chunk below etcd's 1.5 MB.
const membersPerChunk = 5000

// putMembers writes the members of a large world beside it, before it: nobody reads them
// unless the world that names them is there.
func (r Requests) putMembers(ctx context.Context, w *World) error {
	for chunk := range slices.Chunk(w.Members, membersPerChunk) {
		_, err := r.send(ctx, "write members", store.Request{
			Then: []store.Write{store.Put(r.Job.Plan(w.Proposal, w.Chunks), members(chunk))}})
		if err != nil {
			return err
		}
		w.Chunks++
	}
	return nil
}

// record is the world as it is written: members that lie in plan/ are left out.
func (w World) record() []byte {
	if w.Chunks > 0 {
		w.Members = nil
	}
	return schema.Encode(w)
}

func (w *World) number() any {
	if w.Resume == nil {
		return nil
	}
	return w.Resume.Number
}

// turn writes a new phase over the world that was seen, and what goes with it.
func (r Requests) turn(ctx context.Context, seen *Snapshot, to World, with store.Request, events ...history.Event) (World, error) {
	var rev int64
	if seen.World != nil {
		rev = seen.World.Rev
	}
	to.Time = time.Now()
	// The proof needs a value that nobody else writes: two keepers may turn the same world the same way.
	to.Turn = rand.Text()
	rev, err := r.sendOn(ctx, seen.Job.UID, seen.Fence, "turn the world to "+string(to.Phase), store.Request{
		If:   append([]store.Guard{store.Unchanged(r.Job.World(), rev)}, with.If...),
		Then: append([]store.Write{store.Put(r.Job.World(), to.record()), history.Tell(r.Job, events...)}, with.Then...),
	})
	to.Rev = rev
	return to, err
}

// Enter writes a Hold. The fence stays: what was captured may still be committed.
func (r Requests) Enter(ctx context.Context, seen *Snapshot, me membership.Node, e Enter) (World, error) {
	w := *seen.World
	w.Phase, w.Hold, w.Ledger = Waiting, &e.Hold, e.Ledger
	if e.Quarantine != nil {
		w.Quarantine = e.Quarantine
	}
	guards := []store.Guard{store.Unchanged(r.Job.Node(me.Node), me.Rev)}
	for _, x := range e.Lost {
		guards = append(guards, store.Unchanged(r.Job.Node(x.Node), x.Rev))
		w.Told = append(w.Told, x.Incarnation)
	}
	events := lostEvents(w.Generation, me.Node, e.Lost)
	if e.Failure != nil {
		events = append(events, e.Failure.event(w.Generation))
	}
	if e.Hold.Why == BackingOff {
		events = append(events, history.Event{Kind: history.Backoff, Generation: w.Generation, Text: e.Hold.Text,
			Fields: history.Fields{"seconds": time.Duration(e.Hold.Backoff).Seconds(), "restarts_used": e.Ledger.Used, "restarts_max": seen.Job.Rules.MaxRestarts}})
	}
	events = append(events, history.Event{Kind: history.WaitEntered, Generation: w.Generation, Text: e.Hold.Text,
		Fields: history.Fields{"why_code": e.Hold.Why, "present": e.Hold.Present, "np": seen.Wish.NP}})
	if e.Hold.Planned {
		events = append(events, history.Event{Kind: history.SaveAsked, Generation: w.Generation,
			Text:   "the workers are asked to save (" + e.Hold.Reason + ")",
			Fields: history.Fields{"reason": e.Hold.Reason, "grace_seconds": e.Hold.Limit(seen.Job).Seconds()}})
	}
	return r.turn(ctx, seen, w, store.Request{If: guards}, events...)
}

// Run starts a generation whose barrier is full.
func (r Requests) Run(ctx context.Context, seen *Snapshot, step Run, idle time.Duration, f Waterfall) (World, error) {
	w := *seen.World
	w.Phase, w.Master = Running, &step.Master
	ev := history.Event{Kind: history.WorldRunning, Generation: w.Generation,
		Text:   fmt.Sprintf("generation %d running: world size %d", w.Generation, w.Size()),
		Fields: history.Fields{"world_size": w.Size(), "idle_ms": nil, "barrier_ms": f.forming(), "stopped_ms": slowestStop(seen), "waterfall": f}}
	if idle > 0 {
		ev.Fields["idle_ms"] = idle.Milliseconds()
	}
	return r.turn(ctx, seen, w, store.Request{Then: r.putEndpoints(seen)}, ev)
}

func slowestStop(s *Snapshot) int64 {
	var ms int64
	for _, r := range s.Ready {
		ms = max(ms, r.StopMS)
	}
	return ms
}

// Finish notes that a worker is through: from here on nothing restarts until the others are.
func (r Requests) Finish(ctx context.Context, seen *Snapshot, step Finish) (World, error) {
	w := *seen.World
	w.Phase = Finishing
	rank, left := 0, 0
	for i, m := range w.Members {
		x := seen.Exits[m.Node]
		for k := range w.Slots {
			if x.Incarnation == m.Incarnation && k < len(x.Codes) && x.Codes[k] != nil {
				if m.Node == step.Node {
					rank = i*w.Slots + k
				}
				continue
			}
			left++
		}
	}
	return r.turn(ctx, seen, w, store.Request{}, history.Event{Kind: history.JobFinishing, Generation: w.Generation, Node: step.Node,
		Text: fmt.Sprintf("rank %d is through, and %s to go", rank, counted(left, "worker")), Fields: history.Fields{"rank": rank, "left": left}})
}

// End closes the attempt.
func (r Requests) End(ctx context.Context, seen *Snapshot, e End) (World, error) {
	w := World{UID: seen.Job.UID}
	if seen.World != nil {
		w = *seen.World
	}
	w.Attempt, w.Phase, w.Hold, w.Outcome, w.Ledger = seen.Job.Attempt, e.Phase, nil, &e.Outcome, e.Ledger
	var guards []store.Guard
	if e.Phase == Stopped && seen.World != nil {
		guards = append(guards, store.NoneNewer(r.Job.Exits(w.Generation), seen.Rev))
	}
	events := lostEvents(w.Generation, e.By, e.Lost)
	if e.Failure != nil {
		events = append(events, e.Failure.event(w.Generation))
	}
	kind := map[Phase]history.Kind{Done: history.JobDone, Failed: history.JobFailed, Stopped: history.JobStopped}[e.Phase]
	events = append(events, history.Event{Kind: kind, Generation: w.Generation,
		Text: fmt.Sprintf("job %s: %s", e.Phase, e.Outcome.Message), Fields: history.Fields{"exit": e.Outcome}})
	return r.turn(ctx, seen, w, store.Request{If: guards}, events...)
}

// Ready reports that node me has stopped every older worker and has what generation w needs.
func (r Requests) Ready(ctx context.Context, w *World, me membership.Node, rd Ready) error {
	rd.Incarnation = me.Incarnation
	_, err := r.send(ctx, "report ready", store.Request{
		If:   []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation), store.Unchanged(r.Job.Node(me.Node), me.Rev)},
		Then: []store.Write{store.Put(r.Job.Ready(w.Generation, me.Node), schema.Encode(rd))},
	})
	return err
}

// Exit reports how the workers of node ended; seen is the revision of the record that it replaces.
func (r Requests) Exit(ctx context.Context, w *World, node string, seen int64, x Exit) (int64, error) {
	return r.send(ctx, "report exit", store.Request{
		If:   []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation), store.Unchanged(r.Job.Exit(w.Generation, node), seen)},
		Then: []store.Write{store.Put(r.Job.Exit(w.Generation, node), schema.Encode(x))},
	})
}

// Fail records the first failure of a generation; who comes later gets store.ErrMoved. Its guard is the
// world, not the fence: a worker that ends because the others were asked to stop did not fail.
func (r Requests) Fail(ctx context.Context, w *World, f Failure) error {
	_, err := r.sendOn(ctx, w.UID, w.Generation, "report failure", store.Request{
		If:   []store.Guard{store.Unchanged(r.Job.World(), w.Rev), store.Absent(r.Job.Failure(w.Generation))},
		Then: []store.Write{store.Put(r.Job.Failure(w.Generation), schema.Encode(f))},
	})
	return err
}

// Moved reports whether err says that the request was overtaken.
func Moved(err error) bool { return errors.Is(err, store.ErrMoved) }
