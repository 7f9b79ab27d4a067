package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// ownAsk limits how long a rank waits to be asked itself, after another rank was asked.
const ownAsk = 30 * time.Second

// trainer is one worker's part in one generation.
type trainer struct {
	config
	world
	*state
	group *group
	data  *dataset
	out   io.Writer // of rank 0 only
	mean  float64   // loss of the newest batch
	saved int       // step of the newest save
}

// train joins the world, resumes, and trains until the run is complete (nil) or
// stops (errAsked, errPeers).
func train(ctx context.Context, c config, w world, stdout io.Writer) error {
	g, err := join(ctx, w, c.identity())
	if err != nil && ctx.Err() != nil {
		return errAsked
	} else if err != nil {
		return err
	}
	defer g.close()
	s, err := resume(g, c, w)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	t := &trainer{config: c, world: w, state: s, group: g, data: makeData(c.samples, c.seed), out: io.Discard,
		saved: s.Step}
	if w.rank == 0 {
		t.out = stdout
	}
	fmt.Fprintf(t.out, "generation %d: world %d, batch %d, lr %.4g, from step %d (%d samples)\n",
		w.generation, w.size, w.global, w.rate(t.Samples), t.Step, t.Samples)
	return t.loop(ctx)
}

// resume returns the state to start from: the checkpoint that elastic names, else the newest
// complete save of any rank, else the initial state.
func resume(g *group, c config, w world) (*state, error) {
	var s *state
	var unreadable error
	if w.resume != "" {
		s, unreadable = load(w.resume)
	} else if c.dir != "" {
		s, unreadable = newest(c.dir)
	}
	if s == nil {
		s = &state{Identity: c.identity(), Weights: newWeights(c.hidden, c.seed), Seed: c.seed,
			Dataset: c.samples}
	}
	if err := g.newest(s); err != nil {
		return nil, err
	}
	if s.Step == 0 && unreadable != nil {
		return nil, unreadable // an unreadable checkpoint must not become a start from scratch
	}
	if s.Identity != c.identity() {
		return nil, fmt.Errorf("it was saved with %s, this is %s", s.Identity, c.identity())
	}
	return s, nil
}

func (t *trainer) loop(ctx context.Context) error {
	shown, shownAt, savedAt, stop := t.Samples, time.Now(), time.Now(), false
	for !stop && t.left() > 0 {
		begin := time.Now()
		mine, stopping, err := t.step(ctx)
		if err != nil {
			return err
		}
		t.report(t.losses)
		if since := time.Since(shownAt); t.rank == 0 && since >= time.Second {
			fmt.Fprintf(t.out,
				"step %d  epoch %.2f  loss %.4f  %.0f samples/s  world %d  batch %d  lr %.4g\n", t.Step,
				float64(t.Samples)/float64(t.samples), t.mean, float64(t.Samples-shown)/since.Seconds(),
				t.size, t.global, t.rate(t.Samples))
			t.report(t.progress)
			shown, shownAt = t.Samples, time.Now()
		}
		if time.Since(savedAt) >= t.saveEvery {
			if err := t.save(); err != nil {
				fmt.Fprintln(t.out, "training goes on without this save:", err)
			}
			savedAt = time.Now()
		}
		if stop = stopping; !stop {
			t.pause(ctx, begin, mine)
		}
	}
	return t.end(ctx)
}

// left returns how many samples remain.
func (t *trainer) left() int64 {
	if t.steps > 0 {
		return int64(t.steps-t.Step) * int64(t.global)
	}
	return int64(t.epochs)*int64(t.samples) - t.Samples
}

// step trains on the next global batch. mine is the number of samples of this rank. stop is the
// same on all ranks, and true if any rank was asked to stop.
func (t *trainer) step(ctx context.Context) (mine int, stop bool, err error) {
	asked := t.asked(ctx)
	// Each micro-batch is averaged, then all of them, and the weight is applied. So a sample counts
	// size/global. Only the last batch of an epoch may be shorter.
	n, scale := t.global, t.weight/float64(t.batch*t.accum)
	if left := t.samples - int(t.Samples%int64(t.samples)); left < n {
		n, scale = left, float64(t.size)/float64(left)
	}
	end := len(t.Weights)
	v := make([]float64, end+3) // gradient, loss, checksum, stop
	micro := t.global / t.accum
	for first := 0; first < n; first += micro {
		for i := first + t.rank; i < min(first+micro, n); i += t.size {
			position := t.Samples + int64(i)
			id := t.data.at(position)
			l, _ := loss(t.Weights, t.data.x[id], t.data.y[id], gradient{v[:end], scale})
			v[end] += scale * l
			v[end+1] += mark(position/int64(t.samples), id)
			mine++
		}
	}
	if n == t.global && mine != t.batch*t.accum {
		return 0, false, fmt.Errorf("took %d samples, expected %d x %d", mine, t.batch, t.accum)
	}
	if asked {
		v[end+2] = 1
	}
	if err := t.group.sum(v); err != nil {
		return 0, false, err
	}
	lr := t.rate(t.Samples)
	for i := range t.Weights {
		t.Weights[i] -= lr * v[i] / float64(t.size) // the plain average over ranks
	}
	t.Step++
	t.Samples += int64(n)
	t.Checksum += v[end+1]
	t.mean = v[end] / float64(t.size)
	if h := len(t.History); h == 0 || t.History[h-1].Generation != t.generation {
		t.History = append(t.History, stretch{t.generation, t.size, 0})
	}
	t.History[len(t.History)-1].Steps++
	return mine, v[end+2] > 0, nil
}

// asked reports whether elastic asked this worker to save and end.
func (t *trainer) asked(ctx context.Context) bool {
	_, err := os.Stat(t.drain)
	return ctx.Err() != nil || err == nil
}

// pause makes a step as slow as that of a large model.
func (t *trainer) pause(ctx context.Context, begin time.Time, mine int) {
	wait := t.stepSleep
	if wait == 0 && t.pace > 0 {
		wait = time.Duration(float64(mine)/t.pace*float64(time.Second)) - time.Since(begin)
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// end saves, and keeps all ranks together until the save is complete.
func (t *trainer) end(ctx context.Context) error {
	err := t.save()
	complete := t.left() <= 0
	if err == nil && complete && t.rank == 0 {
		err = t.checkSamples()
	}
	t.report(t.progress)
	if err == nil {
		err = t.group.sum([]float64{0})
	}
	if err != nil || complete {
		return err
	}
	if !t.asked(ctx) {
		// A worker that ends before its agent asked it counts as failed. All agents ask at about
		// the same time, so wait for ours.
		select {
		case <-ctx.Done():
		case <-time.After(ownAsk):
			return errPeers
		}
	}
	return fmt.Errorf("%w after step %d", errAsked, t.Step)
}

func (t *trainer) save() error {
	if t.rank > 0 || t.dir == "" || t.saved == t.Step {
		return nil
	}
	err := save(t.dir, t.state)
	if err == nil {
		t.saved = t.Step
	}
	return err
}

// report appends a line of progress to a file. status shows the file of elastic.
func (t *trainer) report(file string) {
	if file == "" || t.rank > 0 {
		return
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "{\"step\":%d,\"loss\":%g,\"samples\":%d,\"generation\":%d,%s}\n",
			t.Step, t.mean, t.Samples, t.generation, t.total())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(t.out, "the step is not reported:", err)
	}
}

// total returns the size of the whole run as JSON.
func (t *trainer) total() string {
	if t.steps > 0 {
		return fmt.Sprintf("\"total_steps\":%d", t.steps)
	}
	return fmt.Sprintf("\"total_samples\":%d", int64(t.epochs)*int64(t.samples))
}

// mark returns the number of one sample of one epoch in the checksum. It is below 2^20, so a
// float64 adds billions of them exactly, in any order.
func mark(epoch int64, id int) float64 {
	return float64((uint64(epoch)<<32 | uint64(id)) * 0x9E3779B97F4A7C15 >> 44)
}

// checkSamples compares the checksum of the samples used with that of every sample once an epoch, and
// prints the result.
func (t *trainer) checkSamples() error {
	want := 0.0
	for position := range t.Samples {
		want += mark(position/int64(t.samples), t.data.at(position))
	}
	if t.Checksum != want {
		return errors.New("the checksum says that not every sample was taken once an epoch")
	}
	sum, right, n := 0.0, 0, float64(t.samples)
	for i, x := range t.data.x {
		l, ok := loss(t.Weights, x, t.data.y[i], gradient{})
		if sum += l; ok {
			right++
		}
	}
	t.mean = sum / n
	var history []string
	for _, h := range t.History {
		history = append(history, fmt.Sprintf("generation %d: %d steps at world %d", h.Generation,
			h.Steps, h.World))
	}
	fmt.Fprintf(t.out, "done: %d steps, %d samples = %.4g epochs, every sample once an epoch; %s; loss "+
		"%.6f, accuracy %.1f %%\n",
		t.Step, t.Samples, float64(t.Samples)/n, strings.Join(history, ", "), t.mean, 100*float64(right)/n)
	return nil
}
