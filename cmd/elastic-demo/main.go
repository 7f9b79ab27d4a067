// Command train is the bundled example of Elastic, made to be copied from: real
// data-parallel training of a small network, started by
//
//	elastic run --np=2 --job_id=x train
//
// It needs nothing but the standard library and its environment (env.go). Nodes
// may come and go: it saves (save.go), resumes at any world size, and takes every
// sample once an epoch (train.go). Without elastic it trains alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	ctx, cancel := context.WithCancel(ctx)
	// The handler stays: a scheduler and the agent may both send SIGTERM, and the second one must
	// not interrupt a save.
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		cancel()
	}()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, console{os.Stdout, os.Stderr}))
}

var (
	errAsked = errors.New("stopped, as asked")
	errPeers = errors.New("stopped, as other ranks were asked to; this one was not")
	errLost  = errors.New("lost connection")
)

// console has the streams that a worker writes to.
type console struct{ stdout, stderr io.Writer }

// run trains until the run is complete or ctx asks to stop, and returns the status
// that the process ends with:
//
//	0    training is complete, and only then
//	143  asked to stop; all ranks stopped after the same step, and saved. With 0 elastic
//	     would take the worker for done. After a request 143 is no failure
//	101  request for a new generation: the other ranks were asked to stop, this one was not
//	1    failure, also after the loss of a peer: elastic finds out that the peer is the cause
//	2    usage
func run(ctx context.Context, args []string, getenv func(string) string, to console) int {
	var c config
	f := flag.NewFlagSet("elastic-demo", flag.ContinueOnError)
	f.SetOutput(to.stderr)
	f.IntVar(&c.samples, "samples", 12_000, "samples in an epoch")
	f.IntVar(&c.epochs, "epochs", 10, "epochs to train")
	f.IntVar(&c.steps, "steps", 0, "steps to train, instead of --epochs")
	f.IntVar(&c.baseBatch, "batch-size", 32,
		"samples a worker takes in a step, if elastic run has no --batch-size")
	f.Float64Var(&c.baseLR, "lr", 0.2, "learning rate at the base world, if elastic run has no --lr")
	f.IntVar(&c.hidden, "hidden", 24, "hidden units of the network")
	f.Uint64Var(&c.seed, "seed", 1, "seed of data, order and first weights")
	f.Float64Var(&c.pace, "pace", 500, "samples a second that a worker pretends to manage; 0 = full speed")
	f.DurationVar(&c.stepSleep, "step-sleep", 0, "pause after each step, instead of --pace")
	f.DurationVar(&c.saveEvery, "save-every", 2*time.Second, "time between saves; 0 = after each step")
	f.StringVar(&c.losses, "losses", "",
		"file that gets the loss of each step, as lines of JSON; empty = none")
	f.StringVar(&c.dir, "checkpoint-dir", getenv("ELASTIC_CHECKPOINT_DIR"), "where to save; empty = nowhere")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	tooSmall := min(c.samples, c.epochs, c.baseBatch, c.hidden) < 1 ||
		c.steps < 0 || c.baseLR <= 0 || c.pace < 0
	if f.NArg() > 0 || tooSmall {
		fmt.Fprintln(to.stderr, "elastic-demo: only flags, and only numbers above 0; see elastic-demo -h")
		return 2
	}
	w, err := readEnv(getenv, c)
	if err == nil {
		err = train(ctx, c, w, to.stdout)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(to.stderr, "elastic-demo: rank %d: %v\n", w.rank, err)
	switch {
	case errors.Is(err, errAsked), errors.Is(err, errLost) && ctx.Err() != nil:
		return 128 + int(syscall.SIGTERM)
	case errors.Is(err, errPeers):
		return 101
	default:
		return 1
	}
}

// config is the command line: the same for every rank.
type config struct {
	samples, epochs, steps, baseBatch, hidden int
	baseLR, pace                              float64
	seed                                      uint64
	stepSleep, saveEvery                      time.Duration
	losses, dir                               string
}

// identity is what ranks must share to work together, and a save with its reader.
func (c config) identity() string {
	return fmt.Sprintf("--samples=%d --hidden=%d --seed=%d", c.samples, c.hidden, c.seed)
}
