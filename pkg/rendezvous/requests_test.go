package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// guarded is a request, and a change that happens after its sender read the store and before it
// arrives. The guard of that name must refuse the request. Without the change it succeeds.
type guarded struct {
	request, guard string
	stage          func(w *storedJob)
	send           func(w *storedJob) func() error // reads the store, and returns the request
	meanwhile      func(w *storedJob)
}

func stageCreated(w *storedJob)   { w.create(2) }
func stageJoined(w *storedJob)    { w.create(2).join("a", "b", "c") }
func stageForming(w *storedJob)   { w.create(2).join("a", "b", "c").propose("a", "b") }
func stageRunning(w *storedJob)   { w.create(2).join("a", "b", "c").run("a", "b") }
func stageWaiting(w *storedJob)   { w.create(2).join("a", "b", "c").run("a", "b").hold() }
func stageDeserted(w *storedJob)  { stageWaiting(w); w.expire("a").expire("b").expire("c") }
func stageStopped(w *storedJob)   { w.create(2).join("a", "b", "c").run("a", "b").stop() }
func stageCutOff(w *storedJob)    { w.create(2).join("a", "b", "c").run("a", "b").expire("b") }
func stageMissing(w *storedJob)   { w.create(2).join("a", "b", "c").run("a", "b").expire("c") }
func stageSuspected(w *storedJob) { stageRunning(w); suspectB(w) }
func stageLeftOver(w *storedJob)  { w.create(2) }

func touches(key func(schema.Job) string) func(w *storedJob) {
	return func(w *storedJob) { w.touch(key(w.Job)) }
}

// proposes sends the next generation, of a and c. Its guards show that b is as it was read.
func proposes(change func(w *storedJob, p *plan.Propose)) func(w *storedJob) func() error {
	return func(w *storedJob) func() error {
		s, me := w.see(), w.me()
		p := w.next(s, "a", "c")
		if change != nil {
			change(w, &p)
		}
		return func() error { _, err := w.Propose(w.t.Context(), s, me, p); return err }
	}
}

func evictsB(w *storedJob, p *plan.Propose) {
	p.Evicted = []verdict.Member{seen(w.nodes["b"], w.nodes["b"].Rev)}
}
func dropsAbsentB(w *storedJob, p *plan.Propose) {
	p.Dropped = []verdict.Member{seen(w.nodes["b"], 0)}
}
func dropsB(w *storedJob, p *plan.Propose) {
	p.Dropped = []verdict.Member{seen(w.nodes["b"], w.see().Node("b").Rev)}
}

func waits(lost func(w *storedJob) []verdict.Member) func(w *storedJob) func() error {
	return func(w *storedJob) func() error {
		s, me := w.see(), w.me()
		e := plan.Hold{Hold: rendezvous.Hold{Why: rendezvous.NodesMissing}}
		if lost != nil {
			e.Lost = lost(w)
		}
		return func() error { _, err := w.Hold(w.t.Context(), s, me, e); return err }
	}
}

func tells(w *storedJob) func() error {
	s, me, c := w.see(), w.me(), w.nodes["c"]
	return func() error {
		return w.ReportLost(w.t.Context(), s, me,
			plan.ReportLost{Lost: []verdict.Member{{Ref: c.Ref, Reason: "lease-expired",
				Why: "lease expired"}}})
	}
}

func ends(phase rendezvous.Phase) func(w *storedJob) func() error {
	return func(w *storedJob) func() error {
		s := w.see()
		return func() error {
			_, err := w.End(w.t.Context(), s, plan.End{Phase: phase, Outcome: rendezvous.Outcome{Code: 93}})
			return err
		}
	}
}

func asks(w *storedJob) func() error {
	s := w.see()
	return func() error {
		wish := s.Wish
		wish.NP, wish.By = 3, "scale"
		_, err := w.SetWish(w.t.Context(), s, wish)
		return err
	}
}

func creates(w *storedJob) func() error {
	j := *aJob(2).Job
	return func() error { return w.Create(w.t.Context(), j) }
}

func removes(w *storedJob) func() error {
	s := w.see()
	return func() error { return w.Remove(w.t.Context(), s) }
}

func reopens(w *storedJob) func() error {
	s := w.see()
	return func() error { return w.Reopen(w.t.Context(), s, *aJob(3).Job) }
}

func readies(w *storedJob) func() error {
	world, me := w.see().World, w.me()
	return func() error { return w.Ready(w.t.Context(), world, me, rendezvous.Ready{}) }
}

func runs(w *storedJob) func() error {
	s := w.see()
	return func() error {
		_, err := w.Run(w.t.Context(), s, txn.Starting{Step: plan.Run{Master: rendezvous.Master{Host: "a"}}})
		return err
	}
}

func finishes(w *storedJob) func() error {
	s := w.see()
	return func() error { _, err := w.Finish(w.t.Context(), s, plan.Finish{Node: "b"}); return err }
}

func exits(w *storedJob) func() error {
	world, b := w.see().World, w.nodes["b"]
	return func() error {
		_, err := w.Exit(w.t.Context(), world, "b",
			rendezvous.Exit{Incarnation: b.Incarnation, Codes: []*int{new(0)}})
		return err
	}
}

func fails(w *storedJob) func() error {
	world, b := w.see().World, w.nodes["b"]
	return func() error {
		return w.Fail(w.t.Context(), world, rendezvous.Failure{Node: "b", Incarnation: b.Incarnation, Code: 1,
			Time: noon})
	}
}

func joins(w *storedJob) func() error {
	n, rev := w.life("d"), w.see().Job.Rev
	return func() error {
		_, err := w.reg.Join(w.t.Context(), membership.Joining{Node: n, JobRev: rev})
		return err
	}
}

func leaves(w *storedJob) func() error {
	b := w.nodes["b"]
	return func() error { return w.reg.Leave(w.t.Context(), b, 1, membership.Terminated) }
}

func takesOver(w *storedJob) func() error {
	b := w.nodes["b"]
	return func() error { return w.reg.TakeOver(w.t.Context(), b) }
}

// reregisters registers b again, after b was frozen on the way.
func reregisters(w *storedJob) func() error {
	n, world := w.nodes["b"], w.see().World
	n.Rev, n.Lease = 0, w.life("b").Lease
	return func() error { _, err := w.reg.Reregister(w.t.Context(), n, world.Rev); return err }
}

func suspects(w *storedJob) func() error {
	x := membership.Suspicion{Node: "b", By: "a", Incarnation: w.nodes["b"].Incarnation, Watcher: w.me().
		Incarnation, Sign: membership.Silent}
	me := w.me()
	return func() error { _, err := w.reg.Suspect(w.t.Context(), me, 1, x); return err }
}

// suspectB writes that a finds b silent, and returns the record.
func suspectB(w *storedJob) membership.Suspicion {
	w.must(suspects(w)())
	return w.see().Suspects[0]
}

// answerB: b answers that suspicion in the store.
func answerB(w *storedJob) {
	w.must(w.reg.Answer(w.t.Context(), w.see().Suspects[0], w.nodes["b"]))
}

// silentB is b, gone because it does not answer the suspicion of a.
func silentB(w *storedJob) verdict.Member {
	m := seen(w.nodes["b"], w.nodes["b"].Rev)
	m.Record = suspectB(w).Rev
	return m
}

func answers(w *storedJob) func() error {
	x, b := w.see().Suspects[0], w.nodes["b"]
	return func() error { return w.reg.Answer(w.t.Context(), x, b) }
}

// anotherWorld changes only the World record, as a faster node does, so that the other guards hold.
func anotherWorld(w *storedJob) { w.touch(w.Job.World()) }

// laterFence: a later generation was proposed.
func laterFence(w *storedJob) {
	w.put(w.Job.Fence(), []byte(schema.FenceValue(w.see().Job.UID, 2)))
}

var guards = []guarded{
	{"create", "no job", func(*storedJob) {}, creates, func(w *storedJob) { w.create(3) }},

	{"reopen", "job as seen", stageStopped, reopens, touches(schema.Job.Job)},
	{"reopen", "wish as seen", stageStopped, reopens, touches(schema.Job.Wish)},
	{"reopen", "that very world", stageStopped, reopens, anotherWorld},
	{"reopen", "no node is in a job that waits", stageDeserted, reopens, func(w *storedJob) { w.join("d") }},
	{"reopen", "no node is in a job without a world", stageCreated, reopens, func(w *storedJob) { w.join("d") }},

	{"remove", "no node is registered", stageLeftOver, removes, func(w *storedJob) { w.join("z") }},
	{"remove", "job as seen", stageLeftOver, removes, touches(schema.Job.Job)},

	{"join", "job as seen", stageCreated, joins, touches(schema.Job.Job)},
	{"join", "no node has the name", stageCreated, joins, func(w *storedJob) { w.join("d") }},
	{"leave", "own registration", stageRunning, leaves, func(w *storedJob) { w.again("b") }},
	{"take over", "the registration that was seen", stageRunning, takesOver,
		func(w *storedJob) { w.again("b") }},
	{"register again", "no node has the name", stageCutOff, reregisters, func(w *storedJob) { w.join("b") }},
	{"register again", "C3: the world that lists it", stageCutOff, reregisters, anotherWorld},
	{"suspect", "own registration", stageRunning, suspects, func(w *storedJob) { w.again("a") }},

	{"answer", "own registration", stageSuspected, answers, func(w *storedJob) { w.again("b") }},
	{"answer", "the suspicion as seen", stageSuspected, answers,
		func(w *storedJob) { w.must(suspects(w)()) }},

	{"propose", "world as seen", stageRunning, proposes(nil), anotherWorld},
	{"propose", "no world yet", stageJoined, proposes(nil), func(w *storedJob) { w.propose("a", "b") }},
	{"propose", "job as seen", stageRunning, proposes(nil), touches(schema.Job.Job)},
	{"propose", "C1: the commit that was seen", stageRunning, proposes(nil),
		func(w *storedJob) { w.commit() }},
	{"propose", "own registration", stageRunning, proposes(nil), func(w *storedJob) { w.again("a") }},
	{"propose", "C5: the evicted one as seen", stageRunning, proposes(evictsB),
		func(w *storedJob) { w.again("b") }},
	{"propose", "C20: the silent one has not answered", stageRunning,
		proposes(func(w *storedJob, p *plan.Propose) {
			p.Evicted = []verdict.Member{silentB(w)}
		}), answerB},
	{"propose", "C4: the absent one is absent", stageCutOff, proposes(dropsAbsentB),
		func(w *storedJob) { w.reregister("b") }},
	{"propose", "C4: the other life of it as seen", func(w *storedJob) { stageCutOff(w); w.again("b") },
		proposes(dropsB), func(w *storedJob) { w.again("b") }},
	{"propose", "C15: no exit since", stageRunning, proposes(nil), func(w *storedJob) { w.exit("b") }},

	{"hold", "world as seen", stageRunning, waits(nil), anotherWorld},
	{"hold", "own registration", stageRunning, waits(nil), func(w *storedJob) { w.again("a") }},
	{"hold", "C5: the lost one as seen", stageRunning, waits(func(w *storedJob) []verdict.Member {
		return []verdict.Member{seen(w.nodes["b"], w.nodes["b"].Rev)}
	}), func(w *storedJob) { w.again("b") }},
	{"hold", "C20: the silent one has not answered", stageRunning, waits(func(w *storedJob) []verdict.Member {
		return []verdict.Member{silentB(w)}
	}), answerB},
	{"hold", "C4: the absent one is absent", stageCutOff, waits(func(w *storedJob) []verdict.Member {
		return []verdict.Member{seen(w.nodes["b"], 0)}
	}), func(w *storedJob) { w.reregister("b") }},

	{"tell", "it was not reported", stageMissing, tells,
		func(w *storedJob) { w.put(w.Job.Event("missed-"+string(w.nodes["c"].Incarnation)), []byte("[]")) }},
	{"tell", "it is not back", stageMissing, tells, func(w *storedJob) { w.join("c") }},
	{"tell", "it did not leave since", stageMissing, tells, func(w *storedJob) {
		w.put(w.Job.Left("c"), schema.Encode(membership.Left{Incarnation: w.nodes["c"].Incarnation}))
	}},
	{"tell", "world as seen", stageMissing, tells, anotherWorld},
	{"tell", "own registration", stageMissing, tells, func(w *storedJob) { w.again("a") }},

	{"run", "world as seen", stageForming, runs, anotherWorld},
	{"finish", "world as seen", stageRunning, finishes, anotherWorld},
	{"done", "world as seen", stageRunning, ends(rendezvous.Done), anotherWorld},
	{"fail", "world as seen", stageRunning, ends(rendezvous.Failed), anotherWorld},
	{"stop", "world as seen", stageWaiting, ends(rendezvous.Stopped), anotherWorld},
	{"stop", "no world yet", stageJoined, ends(rendezvous.Stopped),
		func(w *storedJob) { w.propose("a", "b") }},
	{"stop", "C15: no exit since", stageWaiting, ends(rendezvous.Stopped),
		func(w *storedJob) { w.exit("b") }},

	{"ready", "C9: no later generation is proposed", stageForming, readies, laterFence},
	{"ready", "own registration", stageForming, readies, func(w *storedJob) { w.again("a") }},
	{"exit", "no later generation is proposed", stageRunning, exits, laterFence},
	{"exit", "the record that was seen", stageRunning, exits, func(w *storedJob) { w.exitWith("b", 1) }},
	{"failure", "C16: the world runs on", stageRunning, fails, func(w *storedJob) { w.hold() }},

	{"ask", "wish as seen", stageRunning, asks, touches(schema.Job.Wish)},
	{"ask", "world as seen", stageRunning, asks, anotherWorld},
}

// TestGuards checks each guard that PROTOCOL.md gives a request, on the etcd in memory and on a
// real one. A refused request changes nothing.
func TestGuards(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		testGuards(t, func() store.Store { return memory.New().Client("test") })
	})
	t.Run("etcd", func(t *testing.T) {
		s, err := etcd.Open(context.Background(), etcd.Config{Endpoints: etcdtest.Start(t).Endpoints()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		testGuards(t, func() store.Store { return s })
	})
}

func testGuards(t *testing.T, open func() store.Store) {
	for i, g := range guards {
		t.Run(strings.ReplaceAll(g.request+": "+g.guard, " ", "-"), func(t *testing.T) {
			calm := newStoredJob(t, open(), schema.Job(fmt.Sprintf("calm%d", i)))
			g.stage(calm)
			if err := g.send(calm)(); err != nil {
				t.Fatalf("nothing happens meanwhile: %v", err)
			}

			w := newStoredJob(t, open(), schema.Job(fmt.Sprintf("x%d", i)))
			g.stage(w)
			send := g.send(w)
			g.meanwhile(w)
			before := w.entries()
			if err := send(); !errors.Is(err, store.ErrMoved) {
				t.Errorf("%v, want ErrMoved", err)
			}
			for _, k := range changed(before, w.entries()) {
				if strings.HasPrefix(k, w.Job.AllPlans()) {
					continue // written before the World that names it, so no reader knows it yet
				}
				t.Errorf("refused, and it changed %s", k)
			}
		})
	}
}

// TestWipedStores: a wiped store counts revisions anew, so a job that repeats its history has the
// same revisions. Requests from before the wipe are refused all the same, however late they arrive.
func TestWipedStores(t *testing.T) {
	harmless := map[string]bool{ // about its own node only, which registers again
		"leave": true, "take over": true,
		// on a lease, and lease ids are not used again
		"join": true, "register again": true, "suspect": true, "answer": true,
	}
	done := map[string]bool{}
	for _, g := range guards {
		if done[g.request] || harmless[g.request] {
			continue
		}
		done[g.request] = true
		t.Run(strings.ReplaceAll(g.request, " ", "-"), func(t *testing.T) {
			c := memory.New()
			was := newStoredJob(t, c.Client("was"), "x")
			g.stage(was)
			send, rev := g.send(was), c.Rev()
			for range 2 {
				c.Wipe()
				is := newStoredJob(t, c.Client("is"), "x")
				is.uid = "another"
				g.stage(is)
				if g.request == "create" {
					is.create(2)
					rev = c.Rev()
				}
				if c.Rev() != rev {
					t.Fatalf("the revision is %d, it was %d", c.Rev(), rev)
				}
			}
			is := newStoredJob(t, c.Client("is"), "x")
			before := is.entries()
			if err := send(); !errors.Is(err, store.ErrMoved) {
				t.Errorf("%v, want ErrMoved", err)
			}
			for _, k := range changed(before, is.entries()) {
				t.Errorf("refused, and it changed %s", k)
			}
		})
	}
}

// TestUnknownResults: whatever happens to a request on its way, its sender learns the result, and
// the request is applied once, even if its first sending arrives much later.
func TestUnknownResults(t *testing.T) {
	fates := map[string]memory.Fate{
		"lost":              {Lost: true},
		"applied, mute":     {Mute: true},
		"applied late":      {Delay: 5 * time.Second},
		"late and mute":     {Delay: 5 * time.Second, Mute: true},
		"held for a minute": {Held: true},
	}
	// These may be written twice for the same incarnation. The second time changes nothing.
	again := map[string]bool{"ready": true, "suspect": true}
	done := map[string]bool{}
	for _, g := range guards {
		if done[g.request] {
			continue
		}
		done[g.request] = true
		for name, fate := range fates {
			if (g.request == "remove" || g.request == "take over") && fate.Mute {
				continue // their result cannot be read back: the caller reads again
			}
			t.Run(strings.ReplaceAll(g.request+" "+name, " ", "-"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := memory.New()
					w := newStoredJob(t, c.Client("sees"), "x")
					g.stage(w)
					cl := c.Client("sends")
					first := true
					cl.Fates(func(op memory.Op) memory.Fate {
						if op.Kind != memory.Txn || !first {
							return memory.Fate{}
						}
						first = false
						return fate
					})
					send := g.send(w.through(cl))
					before, rev := w.entries(), c.Rev()
					err := send()
					if g.request == "remove" || g.request == "take over" || g.request == "answer" {
						if err == nil {
							t.Error("no answer came, and it is said to be done")
						}
						cl.Release()
						return
					}
					if err != nil {
						t.Fatalf("it was said: %v", err)
					}
					after := w.entries()
					if len(changed(before, after)) == 0 {
						t.Fatal("it is said to be done, and nothing changed")
					}
					if n := c.Rev() - rev; n != 1 && g.request != "run" && !again[g.request] {
						t.Errorf("it was applied as %d changes", n)
					}
					cl.Release()
					time.Sleep(time.Minute) // in the bubble: all that is late has arrived
					late := w.entries()
					for _, k := range changed(after, late) {
						if again[g.request] &&
							(strings.Contains(k, "/events/") ||
								string(after[k].Value) == string(late[k].Value)) {
							continue
						}
						t.Errorf("its first sending arrived late, and changed %s", k)
					}
				})
			})
		}
	}
}

// Two keepers take the same step at the same moment. Exactly one of them succeeds.
func TestTwinSteps(t *testing.T) {
	for name, g := range map[string]guarded{
		"propose": {stage: stageRunning, send: proposes(nil)},
		"hold":    {stage: stageRunning, send: waits(nil)},
		"run":     {stage: stageForming, send: runs}, "finish": {stage: stageRunning, send: finishes},
		"done": {stage: stageRunning, send: ends(rendezvous.Done)},
		"stop": {stage: stageWaiting, send: ends(rendezvous.Stopped)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoredJob(t, memory.New().Client("test"), "x")
			g.stage(w)
			one, two := g.send(w), g.send(w)
			if err := one(); err != nil {
				t.Fatal(err)
			}
			before := w.entries()
			if err := two(); !errors.Is(err, store.ErrMoved) {
				t.Errorf("the second: %v", err)
			}
			for _, k := range changed(before, w.entries()) {
				if !strings.Contains(k, "/plan/") {
					t.Errorf("it changed %s", k)
				}
			}
		})
	}
}

// Event texts use singular and plural as people do.
func TestTextsOfEvents(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b").run("a")
	w.exit("a")
	_, err := w.Finish(t.Context(), w.see(), plan.Finish{Node: "a"})
	w.must(err)
	n := w.life("c")
	n.Slots = 4
	_, err = w.reg.Join(t.Context(), membership.Joining{Node: n, JobRev: w.see().Job.Rev, Generation: 1})
	w.must(err)
	w.propose("a", "b")
	_, err = w.End(t.Context(), w.see(),
		plan.End{Phase: rendezvous.Stopped, Outcome: rendezvous.Outcome{Message: "enough"},
			Lost: []verdict.Member{{Ref: w.nodes["b"].Ref, Reason: "agent-gone", Why: "agent gone"}}})
	w.must(err)
	var got []string
	for _, e := range w.see().Events {
		got = append(got, e.Text)
	}
	want := []string{
		"job created",
		"a joined with 1 worker at a:1",
		"b joined with 1 worker at b:1",
		"generation 1 proposed by a: 1 node, world size 1",
		"generation 1 running: world size 1",
		"rank 0 has finished, 0 workers still running",
		"c joined with 4 workers at c:1",
		"generation 2 proposed by a: 2 nodes, world size 2",
		"b was lost (agent gone)",
		"job stopped: enough",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A Hold keeps the quarantines unless it has another list, because a leaving agent does not know
// them.
func TestHoldKeepsQuarantine(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b").propose("a", "b")
	late := []rendezvous.Quarantine{{Node: "b", Until: 3, Times: 1}}
	_, err := w.Hold(t.Context(), w.see(), w.me(),
		plan.Hold{Hold: rendezvous.Hold{Why: rendezvous.NodesMissing}, Quarantine: late})
	w.must(err)
	w.hold()
	if got := w.see().World.Quarantine; !slices.Equal(got, late) {
		t.Errorf("in quarantine: %v, want %v", got, late)
	}
}

// A Hold that refuses a stop takes the request back, with everything else of the wish kept.
func TestARefusedStopIsTakenBack(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b").propose("a", "b")
	s := w.see()
	wish := s.Wish
	wish.Stop, wish.RequireSave, wish.By, wish.Drain = 1, true, "stop", []string{"c"}
	wish, err := w.SetWish(t.Context(), s, wish)
	w.must(err)
	_, err = w.Hold(t.Context(), w.see(), w.me(),
		plan.Hold{Hold: rendezvous.Hold{Why: rendezvous.LastCall, Unsaved: "did not save"}})
	w.must(err)
	got := w.see().Wish
	if got.Stop != 0 || got.RequireSave || got.Request != wish.Request || len(got.Drain) != 1 {
		t.Errorf("the wish is %+v", got)
	}
}

// TestLossNamesItsConfirmer: the event of a loss names the watcher that confirmed it, else the node
// that decided.
func TestLossNamesItsConfirmer(t *testing.T) {
	for name, c := range map[string]struct{ by, want []string }{
		"an own dial":  {nil, []string{"a"}},
		"two watchers": {[]string{"b", "c"}, []string{"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoredJob(t, memory.New().Client("test"), "x").create(2).join("a", "b").run("a", "b")
			lost := seen(w.nodes["b"], w.nodes["b"].Rev)
			lost.By = c.by
			_, err := w.Hold(t.Context(), w.see(), w.me(),
				plan.Hold{Hold: rendezvous.Hold{Why: rendezvous.NodesMissing}, Lost: []verdict.Member{lost}})
			w.must(err)
			events, _, err := history.Read(t.Context(), w.Store, "x", 0)
			w.must(err)
			i := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.NodeLost })
			if i < 0 {
				t.Fatal("no event reports it")
			}
			if got := fmt.Sprint(events[i].Fields["confirmed_by"]); got != fmt.Sprint(c.want) {
				t.Errorf("confirmed by %s, want %s", got, c.want)
			}
		})
	}
}
