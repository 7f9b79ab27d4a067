package hang

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
)

// Workers are the workers of one generation on this node.
type Workers interface {
	Pulses() []Pulse // by local rank
	Ending() bool    // they were asked to end, or are being ended
	Done() <-chan struct{}
	// Look gathers evidence of all workers, and changes none of them.
	Look(ctx context.Context) []Evidence
	Progress() []string // the newest line of each worker, by local rank; "": none
}

// World is the workers of all nodes of one generation.
type World struct {
	Job        string
	Generation uint64
	Members    []membership.Ref // by rank of the node
	Slots      int              // workers per node
}

// BehindAs describes the rank that the others wait for. A single rank keeps no other one waiting.
func (w World) BehindAs() string {
	if len(w.Members)*w.Slots == 1 {
		return "makes no progress"
	}
	return "is behind"
}

// Watch watches the workers of one node in one generation. A job hangs if no worker of any node
// shows a sign of life for Timeout. When the workers of rank 0's node are silent, it asks the other
// nodes, gathers evidence of all ranks, and finds the rank that the others wait for. Each node
// measures silence with its own clock.
type Watch struct {
	World
	Node    string // this node
	Logs    string // directory of the bundle
	Timeout time.Duration
	Workers Workers
	To      func(membership.Ref) http.RoundTripper // to the listeners of other nodes
	Over    <-chan struct{}                        // closed when the generation ends for workers that stay

	mu      sync.Mutex // guards silence, which handlers read
	silence Silence
}

// Found describes a hang.
type Found struct {
	Rank    int
	Known   bool   // that rank differs from the others, or all are on one node
	Message string // one line
	Detail  string // the stack of the rank, and where the bundle is
	Bundle  string // where the bundle is, or why there is none
}

// Run watches until the workers end, the generation is over, or ctx ends. It returns a hang only on
// the node of rank 0.
func (w *Watch) Run(ctx context.Context) *Found {
	period := min(max(w.Timeout/20, 100*time.Millisecond), 5*time.Second)
	tick := time.NewTicker(period)
	defer tick.Stop()
	first := len(w.Members) > 0 && w.Members[0].Node == w.Node
	for {
		select {
		case <-w.Workers.Done():
			return nil
		case <-w.Over:
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if w.Workers.Ending() {
			return nil
		}
		w.observe(Look{At: time.Now(), Pulses: w.Workers.Pulses(), Disk: DiskBytes()}, period)
		if first && w.silent() >= w.Timeout && w.allSilent(ctx) {
			return w.examine(ctx)
		}
	}
}

func (w *Watch) observe(look Look, period time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silence.Observe(look, period)
}

// silent returns for how long no worker of this node has shown a sign of life.
func (w *Watch) silent() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.silence.Total()
}

// How long each request to the other nodes may take.
const (
	silenceLimit = 2 * time.Second
	inspectLimit = 2*answerLimit + time.Second // a worker is asked by its pipe, then by a signal
)

// allSilent asks the other nodes whether they are silent too. A node that does not answer may be
// training, so the result is then false.
func (w *Watch) allSilent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, silenceLimit)
	defer cancel()
	var mu sync.Mutex
	all := true
	w.ask(ctx, SilencePath, func(_ int, body *json.Decoder) {
		var answer silence
		silent := body != nil && body.Decode(&answer) == nil &&
			time.Duration(answer.SilentMS)*time.Millisecond >= w.Timeout*9/10
		mu.Lock()
		defer mu.Unlock()
		all = all && silent
	})
	return all
}

// examine gathers evidence of all ranks, and names the rank that the others wait for.
func (w *Watch) examine(ctx context.Context) *Found {
	v, all := w.look(ctx)
	if len(all) == 0 { // the workers have ended meanwhile
		return nil
	}
	b := Bundle{All: all, NodeOf: w.nodeOf,
		Summary: fmt.Sprintf("job %s, generation %d: rank %d on node %s %s: %s\n",
			w.Job, w.Generation, v.Rank, v.Node, w.BehindAs(), v.Reason)}
	if len(v.Without) > 0 {
		b.Summary += "no evidence from " + phrase.List(v.Without) + "\n"
	}
	dir, err := b.Write(w.Logs, w.Generation)
	where := "evidence of all ranks: " + dir + " on node " + w.Node
	if err != nil {
		where = "the evidence could not be written: " + err.Error()
	}
	return &Found{Rank: v.Rank, Known: v.Known || len(w.Members) == 1, Bundle: where,
		Message: fmt.Sprintf("no rank showed a sign of life for %s; %s", w.Timeout, v.Reason),
		Detail:  strings.TrimPrefix(v.Stack+"\n"+where, "\n")}
}

func (w *Watch) nodeOf(rank int) string { return w.Members[rank/w.Slots].Node }

// gather collects the evidence of all nodes, by rank of the node, and the names of nodes without
// any. here gathers it on the node of rank 0, if this is that node; nil: this is no node.
func (w *Watch) gather(
	ctx context.Context, here func(context.Context) []Evidence,
) (all [][]Evidence, without []string) {
	ctx, cancel := context.WithTimeout(ctx, inspectLimit)
	defer cancel()
	all = make([][]Evidence, len(w.Members))
	var mine sync.WaitGroup
	if here != nil {
		mine.Go(func() { all[0] = fitted(here(ctx), w.room()) })
	}
	w.ask(ctx, LookPath, func(seat int, body *json.Decoder) {
		var theirs []Evidence
		if body != nil && body.Decode(&theirs) == nil && w.of(seat, theirs) {
			all[seat] = theirs // no lock: each node is asked once
		}
	})
	mine.Wait()
	for seat, r := range w.Members {
		if all[seat] == nil {
			without = append(without, r.Node)
		}
	}
	return all, without
}

// fitted shortens the evidence of each worker to room bytes.
func fitted(all []Evidence, room int) []Evidence {
	for i := range all {
		all[i].Fit(room)
	}
	return all
}

// of reports whether theirs has exactly the ranks of that node.
func (w *Watch) of(seat int, theirs []Evidence) bool {
	return len(theirs) == w.Slots && !slices.ContainsFunc(theirs, func(e Evidence) bool {
		return e.Rank < 0 || e.Rank/w.Slots != seat
	})
}

// size is the number of ranks.
func (w *Watch) size() int { return len(w.Members) * w.Slots }

// room returns the largest size of one rank's evidence, in bytes.
func (w *Watch) room() int { return Room(w.size()) }

// atOnce is how many nodes are asked at a time.
const atOnce = 64

// ask sends a request to every other node. It calls take with each answer and the rank of the node.
// The answer is nil if there was none.
func (w *Watch) ask(ctx context.Context, path string, take func(seat int, body *json.Decoder)) {
	room := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for seat, r := range w.Members {
		if r.Node == w.Node {
			continue
		}
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			url := fmt.Sprintf("https://node%s?generation=%d&room=%d", path, w.Generation, w.room())
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				take(seat, nil)
				return
			}
			res, err := w.To(r).RoundTrip(req)
			if err != nil {
				take(seat, nil)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				take(seat, nil)
				return
			}
			take(seat, json.NewDecoder(io.LimitReader(res.Body, int64(4*w.room()*w.Slots+128*w.size())+64<<10)))
		})
	}
	asking.Wait()
}

// standstills is the evidence of the ranks of a world. What NCCL says of another number of ranks is of
// another job.
func standstills(all []Evidence, world int) []diagnosis.Standstill {
	var ranks []diagnosis.Standstill
	var nccl []diagnosis.NCCL
	for _, e := range all {
		nccl = append(nccl, e.NCCL...)
	}
	for _, e := range all {
		ranks = append(ranks,
			diagnosis.Standstill{Rank: e.Rank, State: e.State, WChan: e.WChan, Syscall: e.Syscall,
				Stack: e.Stack, Progress: e.Progress, Collective: e.Collective})
		if n := len(ranks); len(nccl) == world && e.Rank < world {
			ranks[n-1].NCCL = &nccl[e.Rank]
		}
	}
	return ranks
}
