package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// atRest is how long three nodes that train are looked at.
const atRest = time.Minute // the kernel counts in hundredths of a second

// rest prints what an agent, with its guardian, and the local server cost while nothing happens.
func (o options) rest(ctx context.Context) error {
	b, err := newBed(ctx, o.bin, false)
	if err != nil {
		return err
	}
	defer b.remove()
	b.program[1] = "waiter" // a node whose workers are busy is not at rest
	if _, err := b.three("3", 3); err != nil {
		return err
	}
	if err := b.pause(2 * time.Second); err != nil { // the start itself is no rest
		return err
	}
	server := b.localServer()
	type usage struct {
		cpu time.Duration
		rss int64
	}
	look := func() (agents map[string]usage, daemon usage) {
		agents = map[string]usage{}
		for node, c := range b.agents {
			cpu, rss := cost(c.Process.Pid)
			agents[node] = usage{cpu, rss}
		}
		cpu, rss := cost(server)
		return agents, usage{cpu, rss}
	}
	before, theirs := look()
	began := time.Now()
	if err := b.pause(atRest); err != nil {
		return err
	}
	after, now := look()
	took := time.Since(began)
	var cpu time.Duration
	var rss int64
	for node, u := range after {
		cpu = max(cpu, u.cpu-before[node].cpu)
		rss = max(rss, u.rss)
	}
	share := 100 * cpu.Seconds() / took.Seconds()
	fmt.Printf("\nAt rest for %.0fs, the costliest of three agents: %.2f %% of a core (goal <= 0.2 "+
		"%%%s), %.0f MB resident (goal <= 40%s); "+
		"the local server: %.2f %% of a core, %.0f MB\n", took.Seconds(), share, missed(share > 0.2), mb(rss),
		missed(mb(rss) > 40),
		100*(now.cpu-theirs.cpu).Seconds()/took.Seconds(), mb(now.rss))
	return nil
}

// idle is a worker that only waits. It returns only with an error.
func idle() error {
	if err := begun(); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour)
	}
}

func missed(is bool) string {
	if is {
		return ": missed"
	}
	return ""
}

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// cost is the CPU time of a process, to the hundredth of a second, and its resident memory.
func cost(pid int) (cpu time.Duration, rss int64) {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(raw), ") ")
	if f := strings.Fields(rest); len(f) > 21 {
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		pages, _ := strconv.ParseInt(f[21], 10, 64)
		cpu, rss = time.Duration(user+system)*10*time.Millisecond, pages*int64(os.Getpagesize())
	}
	return cpu, rss
}
