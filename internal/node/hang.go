package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// A job hangs when no worker of any node shows a sign of life for --hang-timeout. Each node watches its own
// workers. The node of rank 0 asks the others when its own are silent, gathers the evidence of all ranks, and
// reports the rank that the others wait for as failed. Each node measures silence by its own clock.

// silencePath answers how long the workers of a node have been silent, evidencePath what can be seen of them.
const (
	silencePath  = "/hang/silence"
	evidencePath = "/hang/evidence"
)

// hangWatch watches the workers of one generation.
type hangWatch struct {
	w       *workers
	world   rendezvous.World
	group   *worker.Group
	timeout time.Duration
	over    <-chan struct{}         // closed when the generation is over for workers that stay
	found   chan rendezvous.Failure // holds the one that it may find

	mu      sync.Mutex // guards silence: handlers ask
	silence hang.Silence
}

func newHangWatch(w *workers, world rendezvous.World, g *worker.Group) *hangWatch {
	return &hangWatch{w: w, world: world, group: g, timeout: w.o.HangTimeout, found: make(chan rendezvous.Failure, 1)}
}

// watchHangs watches the workers of a world, if it is asked for, and returns where a hang is told.
func (w *workers) watchHangs(world rendezvous.World, g *worker.Group, over <-chan struct{}, nodeRank int) <-chan rendezvous.Failure {
	if w.o.HangTimeout == 0 {
		none := make(chan rendezvous.Failure)
		close(none)
		return none
	}
	h := newHangWatch(w, world, g)
	h.over = over
	w.hangs.Store(h)
	w.effects.Go(func() { h.run(nodeRank == 0) })
	return h.found
}

// run watches until the workers end, or hang. coordinator: this is the node of rank 0.
func (h *hangWatch) run(coordinator bool) {
	defer close(h.found)
	period := min(max(h.timeout/20, 100*time.Millisecond), 5*time.Second)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-h.group.Done():
			return
		case <-h.over:
			return
		case <-h.w.ctx.Done():
			return
		case <-tick.C:
		}
		if h.group.Ending() {
			return
		}
		h.observe(hang.Look{At: time.Now(), Pulses: h.group.Pulses(), Disk: hang.DiskBytes()}, period)
		if coordinator && h.silent() >= h.timeout && h.everybodySilent() {
			h.found <- h.examine()
			return
		}
	}
}

func (h *hangWatch) observe(look hang.Look, period time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silence.Observe(look, period)
}

// silent is for how long no worker here has shown a sign of life.
func (h *hangWatch) silent() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silence.Total()
}

// others are the other nodes of the world.
func (h *hangWatch) others() []membership.Ref {
	return slices.DeleteFunc(slices.Clone(h.world.Members), func(r membership.Ref) bool { return r.Node == h.w.node })
}

// everybodySilent asks the other nodes. One that does not answer may train: its silence is for others to judge.
func (h *hangWatch) everybodySilent() bool {
	ctx, cancel := context.WithTimeout(h.w.ctx, 2*time.Second)
	defer cancel()
	var mu sync.Mutex
	all := true
	h.ask(ctx, http.MethodGet, silencePath, func(_ membership.Ref, body *json.Decoder) {
		var answer struct{ SilentMS int64 }
		silent := body != nil && body.Decode(&answer) == nil &&
			time.Duration(answer.SilentMS)*time.Millisecond >= h.timeout*9/10
		mu.Lock()
		defer mu.Unlock()
		all = all && silent
	})
	return all
}

// atOnce is how many nodes are asked at a time.
const atOnce = 64

// ask sends a request to every other node, and gives each answer to take; nil: there was none.
func (h *hangWatch) ask(ctx context.Context, method, path string, take func(membership.Ref, *json.Decoder)) {
	room := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for _, r := range h.others() {
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			url := fmt.Sprintf("https://node%s?generation=%d", path, h.world.Generation)
			req, err := http.NewRequestWithContext(ctx, method, url, nil)
			if err != nil {
				take(r, nil)
				return
			}
			res, err := h.w.saves.to(r).RoundTrip(req)
			if err != nil {
				take(r, nil)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				take(r, nil)
				return
			}
			take(r, json.NewDecoder(res.Body))
		})
	}
	asking.Wait()
}

// examine gathers the evidence of all ranks and names the one that the others wait for.
func (h *hangWatch) examine() rendezvous.Failure {
	ctx, cancel := context.WithTimeout(h.w.ctx, 4*time.Second)
	defer cancel()
	var mu sync.Mutex
	var all []worker.Evidence
	var here sync.WaitGroup
	here.Go(func() {
		own := h.group.Examine(ctx)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, own...)
	})
	h.ask(ctx, http.MethodPost, evidencePath, func(_ membership.Ref, body *json.Decoder) {
		var theirs []worker.Evidence
		if body == nil || body.Decode(&theirs) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, theirs...)
	})
	here.Wait()
	behind := diagnosis.FindBehind(standstills(all))
	dir, err := h.bundle(all, behind)
	if err != nil {
		h.w.notice("the evidence of the hang could not be written: " + err.Error())
	}
	seat := behind.Rank / h.world.Slots
	return rendezvous.Failure{Node: h.world.Members[seat].Node, Incarnation: h.world.Members[seat].Incarnation,
		Rank: behind.Rank, LocalRank: behind.Rank % h.world.Slots, Code: 1, Hang: true,
		Message: fmt.Sprintf("no rank showed a sign of life for %s; %s", h.timeout, behind.Reason),
		Detail:  strings.TrimPrefix(behind.Stack+"\nevidence of all ranks: "+dir+" on node "+h.w.node, "\n")}
}

func standstills(all []worker.Evidence) []diagnosis.Standstill {
	var ranks []diagnosis.Standstill
	for _, e := range all {
		ranks = append(ranks, diagnosis.Standstill{Rank: e.Rank, State: e.State, WChan: e.WChan, Syscall: e.Syscall, Stack: e.Stack, Progress: e.Progress})
	}
	return ranks
}

// bundle keeps the evidence of all ranks in the log directory.
func (h *hangWatch) bundle(all []worker.Evidence, behind diagnosis.Behind) (string, error) {
	dir := filepath.Join(h.w.logs.Dir(), fmt.Sprintf("hang-%d", h.world.Generation))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return dir, err
	}
	summary := fmt.Sprintf("job %s, generation %d: rank %d is behind: %s\n", h.w.o.Job.Name, h.world.Generation, behind.Rank, behind.Reason)
	if err := os.WriteFile(filepath.Join(dir, "summary.txt"), []byte(summary), 0o600); err != nil {
		return dir, err
	}
	for _, e := range all {
		text := fmt.Sprintf("rank %d, node %s, local rank %d, pid %d\nstate %s\nwaits in %s\nsystem call %s\nprogress %s\n\nkernel:\n%s\n\nPython:\n%s\n",
			e.Rank, h.world.Members[e.Rank/h.world.Slots].Node, e.LocalRank, e.PID, e.State, e.WChan, e.Syscall, e.Progress, e.Kernel, e.Stack)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank-%d.txt", e.Rank)), []byte(text), 0o600); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// answerHangs lets the node of rank 0 ask about the workers here.
func (w *workers) answerHangs() {
	watch := func(r *http.Request) *hangWatch {
		h := w.hangs.Load()
		g, err := strconv.ParseUint(r.URL.Query().Get("generation"), 10, 64)
		if err != nil || h == nil || h.world.Generation != schema.Generation(g) || h.group.Ending() {
			return nil
		}
		return h
	}
	handle := func(pattern string, answer func(context.Context, *hangWatch) (any, bool)) {
		w.saves.peers.server.Handle(pattern, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if h := watch(r); h != nil {
				if v, ok := answer(r.Context(), h); ok {
					_ = json.NewEncoder(out).Encode(v) // a peer that went away asks again
					return
				}
			}
			http.Error(out, "no worker of that generation is silent here", http.StatusConflict)
		}))
	}
	handle("GET "+silencePath, func(_ context.Context, h *hangWatch) (any, bool) {
		return struct{ SilentMS int64 }{h.silent().Milliseconds()}, true
	})
	handle("POST "+evidencePath, func(ctx context.Context, h *hangWatch) (any, bool) {
		if h.silent() < h.timeout/2 {
			return nil, false // it goes on: nothing is ended for a stack
		}
		return h.group.Examine(ctx), true
	})
}

// withFaulthandler has Python write the stacks of all threads when it is aborted.
func withFaulthandler(env [][]string) {
	const name = "PYTHONFAULTHANDLER="
	for i := range env {
		if !slices.ContainsFunc(env[i], func(v string) bool { return strings.HasPrefix(v, name) }) {
			env[i] = append(env[i], name+"1")
		}
	}
}
