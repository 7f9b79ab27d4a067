package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// scenario measures one trial on a bed of its own.
type scenario struct {
	name  string
	cut   bool // nodes in network namespaces
	rows  []row
	trial func(context.Context, *bed) (result, error)
}

// row is one measured time. goal is the limit of its p99; 0: none.
type row struct {
	what string
	goal time.Duration
}

func (r row) goals() string {
	if r.goal == 0 {
		return "-"
	}
	return fmt.Sprintf("p99 <= %.4gs", r.goal.Seconds())
}

// result is the result of one trial: the time of each row, and the waterfall.
type result struct {
	took []time.Duration
	fall *waterfall
}

var (
	second  = time.Second
	started = row{"  … and the survivors' new workers started", 0}
)

var scenarios = []scenario{
	{name: "agent killed",
		trial: lose(func(ctx context.Context, b *bed) error {
			b.kill("c", b.processes("c")[:1])
			return nil
		}),
		rows: []row{{"agent killed, its workers with it -> decided", 0},
			{"  … -> survivors' new workers started", second}}},
	{name: "agent and workers killed",
		trial: lose(func(ctx context.Context, b *bed) error { b.kill("c", b.processes("c")); return nil }),
		rows: []row{{"agent and workers killed at once -> decided", 0},
			{"  … -> survivors' new workers started", second}}},
	{name: "node frozen",
		trial: lose(func(ctx context.Context, b *bed) error { b.freeze(b.processes("c")); return nil }),
		rows:  []row{{"node silent (SIGSTOP of agent and workers) -> decided", second}, started}},
	{name: "agent frozen",
		trial: lose(func(ctx context.Context, b *bed) error { b.freeze(b.processes("c")[:1]); return nil }),
		rows:  []row{{"agent silent (SIGSTOP), its workers go on -> decided", second}, started}},
	{name: "network cut", cut: true,
		trial: lose(func(ctx context.Context, b *bed) error { return b.net.cut(ctx, "c") }),
		rows:  []row{{"node cut off from server and nodes -> decided", second}, started}},
	{name: "worker crash", trial: crashed,
		rows: []row{{"worker crash -> all workers started again", 300 * time.Millisecond}}},
	{name: "last needed node", trial: joined,
		rows: []row{{"last needed node: `elastic run` executed -> all workers started", 0},
			{"  registered (node_joined) -> all workers started", 200 * time.Millisecond}}},
	{name: "scale", trial: scaled,
		rows: []row{{"scale typed -> survivors in Wait", 100 * time.Millisecond},
			{"scale 2 to 3 typed, a spare is there -> all workers started", 0}}},
}

// three starts three nodes and waits until want of them train.
func (b *bed) three(ctx context.Context, np string, want int) (int, error) {
	for _, n := range []string{"a", "b", "c"} {
		if err := b.agent(n, np); err != nil {
			return 0, err
		}
	}
	g, _, err := b.running(ctx, 0, want)
	return g, err
}

// waterfallOf describes the start of generation g after a fault that began at `at` and ended at
// `last`.
func (b *bed) waterfallOf(ctx context.Context, g int, at, last time.Time) (*waterfall, error) {
	e, err := b.event(ctx, "workers_started",
		func(e event) bool { return e.Kind == "workers_started" && e.Generation == g })
	return e.went(at, last), err
}

// settled waits while a world trains, before a node is lost: one to two seconds, at random, so that
// losses happen at any time between two heartbeats.
func settled(ctx context.Context) error {
	select {
	case <-time.After(time.Second + rand.N(time.Second)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lose returns a trial in which node c of three is lost.
func lose(how func(context.Context, *bed) error) func(context.Context, *bed) (result, error) {
	return func(ctx context.Context, b *bed) (result, error) {
		g, err := b.three(ctx, "2:3", 3)
		if err != nil {
			return result{}, err
		}
		if err := settled(ctx); err != nil {
			return result{}, err
		}
		at := time.Now()
		if err := how(ctx, b); err != nil {
			return result{}, err
		}
		g, last, err := b.running(ctx, g, 2)
		if err != nil {
			return result{}, err
		}
		lost, err := b.after(ctx, "node_lost", at)
		if err != nil {
			return result{}, err
		}
		fall, err := b.waterfallOf(ctx, g, at, last)
		return result{[]time.Duration{lost.Time.Sub(at), last.Sub(at)}, fall}, err
	}
}

func crashed(ctx context.Context, b *bed) (result, error) {
	g, err := b.three(ctx, "3", 3)
	if err != nil {
		return result{}, err
	}
	if err := b.crash(); err != nil {
		return result{}, err
	}
	g, last, err := b.running(ctx, g, 3)
	if err != nil {
		return result{}, err
	}
	at, err := b.crashed()
	if err != nil {
		return result{}, err
	}
	fall, err := b.waterfallOf(ctx, g, at, last)
	return result{[]time.Duration{last.Sub(at)}, fall}, err
}

// crash tells the worker of rank 1 to crash.
func (b *bed) crash() error { return os.WriteFile(filepath.Join(b.dir, "crash"), nil, 0o600) }

// crashed returns when the worker crashed.
func (b *bed) crashed() (time.Time, error) {
	raw, err := os.ReadFile(filepath.Join(b.dir, "crashed"))
	ns, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err == nil && ns == 0 {
		err = errors.New("no worker crashed")
	}
	return time.Unix(0, ns), err
}

func joined(ctx context.Context, b *bed) (result, error) {
	for _, n := range []string{"a", "b"} {
		if err := b.agent(n, "3"); err != nil {
			return result{}, err
		}
		if _, err := b.event(ctx, "node_joined",
			func(e event) bool { return e.Kind == "node_joined" && e.Node == n }); err != nil {
			return result{}, err
		}
	}
	executed := time.Now()
	if err := b.agent("c", "3"); err != nil {
		return result{}, err
	}
	g, last, err := b.running(ctx, 0, 3)
	if err != nil {
		return result{}, err
	}
	here, err := b.after(ctx, "node_joined", executed)
	if err != nil {
		return result{}, err
	}
	fall, err := b.waterfallOf(ctx, g, executed, last)
	return result{[]time.Duration{last.Sub(executed), last.Sub(here.Time)}, fall}, err
}

func scaled(ctx context.Context, b *bed) (result, error) {
	for _, n := range []string{"a", "b"} {
		if err := b.agent(n, "2"); err != nil {
			return result{}, err
		}
	}
	g, _, err := b.running(ctx, 0, 2)
	if err != nil {
		return result{}, err
	}
	if err := b.agent("c", "2"); err != nil {
		return result{}, err
	}
	if _, err := b.event(ctx, "node_joined", func(e event) bool {
		return e.Kind == "node_joined" && e.Node == "c"
	}); err != nil {
		return result{}, err
	}
	at := time.Now()
	if out, err := b.elastic(ctx, "scale", "b", "--np=3", "--detach"); err != nil {
		return result{}, fmt.Errorf("%w: %s", err, out)
	}
	g, last, err := b.running(ctx, g, 3)
	if err != nil {
		return result{}, err
	}
	wait, err := b.after(ctx, "wait_entered", at)
	if err != nil {
		return result{}, err
	}
	fall, err := b.waterfallOf(ctx, g, at, last)
	return result{[]time.Duration{wait.Time.Sub(at), last.Sub(at)}, fall}, err
}
