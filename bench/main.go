// Command bench measures how fast a job recovers on this machine, with the real
// binaries (`make bench`). The times come from the workers, which note when they
// start, and from the events of the job. With -size it measures how fast a
// checkpoint is saved instead (`make bench-checkpoint`).
//
//	bin/bench -bin bin -trials 20 -peer 3
//	bin/bench -bin bin -trials 5 -size 2000000000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/elasticd/elastic/bench/worker"
)

func main() {
	workers := map[string]func() error{"worker": worker.Work, "saver": worker.Save, "waiter": worker.Wait,
		"logger": worker.Log}
	if len(os.Args) > 1 && workers[os.Args[1]] != nil {
		err := workers[os.Args[1]]() // returns only with an error
		fmt.Fprintf(os.Stderr, "bench %s: %v\n", os.Args[1], err)
		if errors.Is(err, worker.ErrCrash) {
			os.Exit(3)
		}
		os.Exit(1)
	}
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "directory of elastic and elasticd")
	flag.IntVar(&o.trials, "trials", 20, "trials of each scenario")
	flag.IntVar(&o.peer, "peer", 3,
		"trials of each scenario with torchrun, and with Elastic beside it; 0: none")
	flag.StringVar(&o.python, "python", "",
		"interpreter with torch; default: $TORCHRUN/bin/python, else /usr/bin/python3")
	flag.StringVar(&o.only, "only", "", "only scenarios whose name contains this")
	size := flag.Int64("size", 0, "measure the saving of a checkpoint of so many bytes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the bench at once, and leaves its processes
	var err error
	if *size > 0 {
		err = saving(ctx, o.bin, o.trials, *size)
	} else {
		err = o.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	bin, python, only string
	trials, peer      int
}

func (o options) run(ctx context.Context) error {
	fmt.Printf("%d CPUs (%s), load %s, %s; one machine\n", runtime.NumCPU(), model(), load(), runtime.GOOS)
	if o.trials > 0 {
		if err := o.recovery(ctx); err != nil {
			return err
		}
		if strings.Contains("at rest", o.only) {
			if err := o.rest(ctx); err != nil {
				return err
			}
		}
		if strings.Contains("logs", o.only) {
			if err := o.logging(ctx); err != nil {
				return err
			}
		}
	}
	if o.peer > 0 {
		return o.compare(ctx)
	}
	return nil
}

// recovery measures every scenario, and prints how long each stage took.
func (o options) recovery(ctx context.Context) error {
	fmt.Printf("\nElastic, %d trials each, three nodes. Seconds:\n", o.trials)
	fmt.Printf("%-66s %-14s %8s %8s %8s %8s\n", "", "goal", "min", "p50", "p99", "max")
	var falls []string
scenarios:
	for _, s := range scenarios {
		if !strings.Contains(s.name, o.only) {
			continue
		}
		took := make([][]time.Duration, len(s.rows))
		var went []waterfall
		for k := range o.trials {
			progress("%s: %d of %d", s.name, k+1, o.trials)
			r, err := o.once(ctx, s)
			if ctx.Err() == nil && errors.Is(err, errNetwork) {
				fmt.Printf("%-66s not run: %v\n", s.rows[0].what, err)
				continue scenarios
			}
			if err != nil {
				progress("")
				return fmt.Errorf("%s, trial %d: %w", s.name, k+1, err)
			}
			for i, d := range r.took {
				took[i] = append(took[i], d)
			}
			if r.fall != nil {
				went = append(went, *r.fall)
			}
		}
		progress("")
		for i, row := range s.rows {
			d := spread(took[i])
			mark := ""
			if row.goal > 0 && d.at(0.99) > row.goal {
				mark = "  missed"
			}
			fmt.Printf("%-66s %-14s %7.3fs %7.3fs %7.3fs %7.3fs%s\n",
				row.what, row.goals(),
				d.at(0).Seconds(), d.at(0.5).Seconds(), d.at(0.99).Seconds(), d.at(1).Seconds(), mark)
		}
		if len(went) > 0 {
			falls = append(falls, fmt.Sprintf("%-34s %s", s.name, stages(went)))
		}
	}
	if len(falls) > 0 {
		fmt.Printf("\nWhere it went, from the waterfall of each start: milliseconds from what happened, "+
			"p50 and p99\n%-34s", "")
		for _, s := range stageNames {
			fmt.Printf(" %12s", s)
		}
		fmt.Println()
		for _, l := range falls {
			fmt.Println(l)
		}
	}
	fmt.Printf("load at the end %s\n", load())
	return nil
}

func (o options) once(ctx context.Context, s scenario) (result, error) {
	begin := newBed
	if s.cut {
		begin = newNetworkBed
	}
	b, err := begin(ctx, o.bin)
	if err != nil {
		return result{}, err
	}
	defer b.remove()
	return s.trial(ctx, b)
}

// spread is the distribution of a time over all trials.
type spread []time.Duration

// at returns the q-th quantile. With few trials, p99 is the largest value.
func (s spread) at(q float64) time.Duration {
	d := slices.Sorted(slices.Values(s))
	if len(d) == 0 {
		return 0
	}
	return d[int(q*float64(len(d)-1)+0.5)]
}

// progress prints the progress on a terminal.
func progress(format string, args ...any) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "\r"+format+"\x1b[K", args...)
	}
}

func model() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for l := range strings.Lines(string(raw)) {
		if name, value, _ := strings.Cut(l, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func load() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(raw), " ")
	return one
}
