package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// perLab is how many rounds a job lasts. Then it must finish, and the samples of its training are
// checked.
const perLab = 25

// Five nodes train under random faults: agents, workers and machines are killed
// and frozen, the network is cut in one or both directions, the server is frozen
// and killed. A round has one or two faults, and there are COUNT rounds. SEED
// sets the first seed, which determines the faults and their times.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	seed, rounds := uint64(1), 4
	if n := soak(t); n > 1 {
		seed, rounds = rand.Uint64N(1_000_000), n
	}
	if v := os.Getenv("SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("SEED=%s: %v", v, err)
		}
	}
	var total figures
	for ; rounds > 0; rounds -= perLab {
		ok := t.Run(fmt.Sprintf("seed=%d", seed),
			func(t *testing.T) { storm(t, seed, min(rounds, perLab), &total) })
		if !ok {
			break
		}
		seed++
	}
	t.Log(total)
}

// figures are what a soak reports.
type figures struct {
	rounds, generations, lost, failures int             // failures of workers that spent a restart
	back                                []time.Duration // from the end of the faults until it trained again
}

func (f figures) String() string {
	slices.Sort(f.back)
	at := func(q float64) time.Duration {
		if len(f.back) == 0 {
			return 0
		}
		return f.back[int(q*float64(len(f.back)-1))].Round(10 * time.Millisecond)
	}
	return fmt.Sprintf("%d rounds, %d generations, %d nodes lost, %d restarts spent; trained again after "+
		"p50 %s, p99 %s, max %s",
		f.rounds, f.generations, f.lost, f.failures, at(0.5), at(0.99), at(1))
}

// storm runs one job under rounds of faults. seed determines the faults.
func storm(t *testing.T, seed uint64, rounds int, f *figures) {
	r := rand.New(rand.NewPCG(seed, 11))
	np, size := "4", 4 // and a spare
	if r.IntN(2) == 0 {
		np, size = "3:5", 5
	}
	l := newTestbed(t, "a", "b", "c", "d", "e")
	w := l.audit("x")
	flags := []string{"--np=" + np, "--job-id=x", "--batch-size=240", "--lr=0.1", "--scaling=fixed-batch",
		"--max-restarts=1000", "train", "--step-sleep=20ms", "--save-every=300ms"}
	l.all(append(flags, "--steps=1000000")...)
	l.trains(w, size, 0)
	t.Logf("np=%s", np)
	for i := range rounds {
		all := draw(r, l.names)
		t.Logf("round %d: %v", i+1, all)
		before := l.crew()
		from := w.mark(t)
		l.suffer(all)
		healed, rev := time.Now(), w.mark(t)
		l.admits(w, size, from)
		l.trains(w, size, rev)
		took := time.Since(healed)
		w.mark(t)
		worlds, lost := w.since(from, history.WorldProposed), w.since(from, history.NodeLost)
		spent := slices.DeleteFunc(w.since(from, history.WorkerFailed),
			func(e history.Event) bool { return e.Fields["spent"] != true })
		t.Logf("%d generations, %d lost, %d spent, trains again after %s",
			len(worlds), len(lost), len(spent), took.Round(time.Millisecond))
		l.judge(all, before, worlds, lost)
		w.holds(t)
		if t.Failed() {
			t.Fatalf("in round %d of seed %d", i+1, seed)
		}
		f.rounds, f.generations, f.lost, f.failures = f.rounds+1, f.generations+len(worlds), f.lost+len(lost),
			f.failures+len(spent)
		f.back = append(f.back, took)
	}
	l.proves(w, flags)
	w.holds(t)
}

// admits lifts every quarantine since a revision, until n nodes train. The faults hit some machines three
// times within ten minutes, and the operator of this job knows that they are sound.
func (l *testbed) admits(w *audit, n int, since int64) {
	l.t.Helper()
	admitted := map[int64]bool{} // by the revision of the event
	until(l.t, fmt.Sprintf("%d nodes train, and none is in quarantine", n), func() error {
		for _, e := range w.since(since, history.Quarantined) {
			// before the node is back, or after its time, it is not in quarantine
			admitted[e.Rev] = admitted[e.Rev] || l.command("admit", e.Node, "--job-id=x").status == 0
		}
		train := 0
		w.look(func() {
			if w.world != nil && w.world.Phase == rendezvous.Running {
				train = w.world.Count
			}
		})
		if train != n {
			return fmt.Errorf("%d train", train)
		}
		return nil
	})
}

// window is how long a node that lost only the server may take to register again (docs/PROTOCOL.md,
// section 4).
const window = 10 * time.Second

// judge checks that the effects of a round can be explained by its faults.
func (l *testbed) judge(all []fault, before []process, worlds, lost []history.Event) {
	l.t.Helper()
	hit, away := map[string]bool{}, map[string]time.Duration{} // away: from the server alone
	calm := true
	for _, f := range all {
		for _, name := range f.hits {
			hit[name] = hit[name] || !f.calm
			if strings.Contains(f.name, "server") {
				away[name] = f.lasts
			}
		}
		calm = calm && f.calm
	}
	for _, e := range lost {
		// A node that could not register again within the window is dropped when another node
		// causes a change, and causes none itself. If there was no generation, it was a spare: the
		// end of its lease is reported, and no worker restarts.
		if d := away[e.Node]; !hit[e.Node] && !(d > window && !calm) && !(d > 0 && len(worlds) == 0) {
			l.t.Errorf("G5: healthy %s was evicted: %s", e.Node, e.Text)
		}
	}
	if now := l.crew(); calm && (len(worlds) > 0 || !same(now, before)) {
		l.t.Errorf("G5: nothing was lost, but generations %v were proposed; the workers were %v and are %v",
			worlds, before, now)
	}
	// The limit of generations: each fault causes one when it begins and one when it ends. Either
	// may be followed by another one, because a node no longer fits the plan.
	if most := 4 * (len(all) + 1); len(worlds) > most {
		l.t.Errorf("%d generations, at most %d", len(worlds), most)
	}
	for name, x := range l.agents {
		if status, ended := x.ended(); ended {
			l.t.Errorf("the agent of %s ended with %d", name, status)
		}
	}
}

// trains waits until a world of n nodes runs, all nodes are registered and none is suspected, and
// it committed a checkpoint after that revision. It then checks that nothing else is left running.
func (l *testbed) trains(w *audit, n int, after int64) {
	l.t.Helper()
	w.reaches(l.t, limit, fmt.Sprintf("%d nodes train", n), func() error {
		x := w.world
		switch {
		case x == nil || x.Phase != rendezvous.Running || x.Count != n || len(w.nodes) != len(l.names):
			return fmt.Errorf("%+v; %d nodes are registered", x, len(w.nodes))
		case len(w.doubt) > 0:
			return fmt.Errorf("in doubt: %v", w.doubt)
		case w.head.Generation != x.Generation || w.head.Rev <= after:
			return fmt.Errorf("generation %d runs, the newest checkpoint is %+v", x.Generation, w.head)
		}
		return nil
	})
	var g schema.Generation
	member := map[string]bool{}
	w.look(func() {
		g = w.world.Generation
		for _, m := range w.world.Members {
			member[m.Node] = true
		}
	})
	until(l.t, "each member has the worker of its generation, and no other node has any", func() error {
		for _, name := range l.names {
			have := l.workers(name)
			if member[name] && (len(have) != 1 || generation(have[0]) != g) || !member[name] && len(have) > 0 {
				return fmt.Errorf("%s, member of generation %d: %v, has %v", name, g, member[name], have)
			}
		}
		return nil
	})
}

// crew returns the workers of these machines, of all machines if none is given.
func (l *testbed) crew(names ...string) (all []process) {
	if names == nil {
		names = l.names
	}
	for _, name := range names {
		all = append(all, l.workers(name)...)
	}
	return all
}

// proves stops the job, and lets a new attempt finish it. It checks that every sample was used once
// per epoch, and that each generation went on from the checkpoint that its world names.
func (l *testbed) proves(w *audit, flags []string) {
	l.t.Helper()
	l.must("stop", "x")
	for _, name := range l.names {
		l.ends(l.agents[name], 93)
	}
	w.mark(l.t)
	var step int64
	w.look(func() { step = *w.head.Step })
	l.all(append([]string{"--done-ok"}, append(flags, fmt.Sprintf("--steps=%d", step+20))...)...) // spares
	for _, name := range l.names {
		l.ends(l.agents[name], 0)
	}
	said := ""
	for _, x := range l.sandbox.all {
		said += x.stdout()
	}
	if !regexp.MustCompile(fmt.Sprintf(`(?m)^done: %d steps, .*every sample once an epoch`, step+20)).
		MatchString(said) {
		l.t.Errorf("no proof of the samples: %s", tail(said))
	}
	resumes := map[schema.Generation]int64{}
	w.mark(l.t)
	w.look(func() { resumes = w.resumes })
	for _, m := range resumed.FindAllStringSubmatch(said, -1) {
		g, _ := schema.ParseGeneration(m[1])
		if want := strconv.FormatInt(resumes[g], 10); m[2] != want {
			l.t.Errorf("G3: generation %d went on from step %s; its world says %s", g, m[2], want)
		}
	}
	l.t.Log(strings.TrimSpace(lastLine(said)))
}
