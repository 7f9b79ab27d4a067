package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// atRest is how long the three nodes are measured.
const atRest = time.Minute

// usage is the processor time of processes, and their proportional memory (PSS).
type usage struct {
	cpu time.Duration
	pss int64
}

// rest prints the usage of an agent with its guardians, and of the local server, while nothing
// happens.
func (o options) rest(ctx context.Context) error {
	b, err := newBed(ctx, o.bin)
	if err != nil {
		return err
	}
	defer b.remove()
	b.program[1] = "waiter" // busy workers would disturb the measurement
	if _, err := b.three(ctx, "3", 3); err != nil {
		return err
	}
	if err := b.pause(ctx, 2*time.Second); err != nil { // the start is not measured
		return err
	}
	server := b.localServer()
	look := func() (agents map[string]usage, daemon usage) {
		agents = map[string]usage{}
		for node := range b.agents {
			agents[node] = cost(b.ours(node)...)
		}
		return agents, cost(server)
	}
	before, theirs := look()
	began := time.Now()
	if err := b.pause(ctx, atRest); err != nil {
		return err
	}
	after, now := look()
	took := time.Since(began)
	var most usage
	for node, u := range after {
		most.cpu = max(most.cpu, u.cpu-before[node].cpu)
		most.pss = max(most.pss, u.pss)
	}
	share := func(cpu time.Duration) float64 { return 100 * cpu.Seconds() / took.Seconds() }
	daemon := share(now.cpu - theirs.cpu)
	fmt.Printf("\nAt rest for %.0fs, the costliest of three agents with its guardians: %.2f %% of a core "+
		"(goal <= 0.3 "+
		"%%%s), %.0f MB (goal <= 24%s); the local server: %.2f %% of a core (goal <= 1 %%%s), %.0f MB\n",
		took.Seconds(), share(most.cpu), missed(share(most.cpu), 0.3), mb(most.pss), missed(mb(most.pss), 24),
		daemon, missed(daemon, 1), mb(now.pss))
	return nil
}

// ours returns the processes of a node without its workers.
func (b *bed) ours(node string) (pids []int) {
	for _, pid := range b.processes(node) {
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); exe == filepath.Join(b.bin, "elastic") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// missed returns ": missed" if a value is above its goal.
func missed(value, goal float64) string {
	if value > goal {
		return ": missed"
	}
	return ""
}

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// cost returns the usage of processes so far.
func cost(pids ...int) (sum usage) {
	for _, pid := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, t := range threads {
			raw, _ := os.ReadFile(t)
			ran, _, _ := strings.Cut(string(raw), " ")
			ns, _ := strconv.ParseInt(ran, 10, 64)
			sum.cpu += time.Duration(ns)
		}
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if _, rest, ok := strings.Cut(string(raw), "\nPss:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			sum.pss += kb << 10
		}
	}
	return sum
}
