package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/elasticd/elastic/bench/worker"
)

// written sums up the reports of the writers of one run, and the size of their logs.
type written struct {
	bytes, kept int64
	longest     time.Duration // the longest write
	slow        int           // writes of more than 10 ms
}

// logging prints how long the log writes of eight workers take that write a gigabyte in a minute,
// and how many bytes are lost. It does the same for writers with plain files.
func (o options) logging(ctx context.Context) error {
	fmt.Printf("\nLogs: %d workers write 1 GB in %.0f s\n%-34s %10s %10s %14s %14s\n",
		worker.LogWriters, worker.LogFor.Seconds(), "", "GB written", "GB lost", "longest write", "over 10 ms")
	for _, way := range []struct {
		name  string
		start func(b *bed) error
		logs  string // below the directory of the bed
	}{
		{"plain files", plainWriters, "plain/*"},
		{"elastic run", func(b *bed) error {
			return b.agent("a", "1", "--nproc-per-node="+strconv.Itoa(worker.LogWriters))
		},
			"a/log/workerlog.*"},
	} {
		b, err := newBed(ctx, o.bin)
		if err != nil {
			return err
		}
		b.program[1] = "logger"
		err = way.start(b)
		var w written
		if err == nil {
			w, err = b.writers(ctx, way.logs)
		}
		b.remove()
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		fmt.Printf("%-34s %10.3f %10.3f %11.1f ms %14d\n", way.name, float64(w.bytes)/1e9,
			float64(w.bytes-w.kept)/1e9, float64(w.longest)/1e6, w.slow)
	}
	return nil
}

// plainWriters starts the writers with a file each.
func plainWriters(b *bed) error {
	dir := filepath.Join(b.dir, "plain")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for i := range worker.LogWriters {
		out, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		c := exec.Command(b.program[0], b.program[1:]...)
		c.Env, c.Stdout = append(b.env, "ELASTIC_RANK="+strconv.Itoa(i)), out
		err = c.Start()
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
		b.agents["plain"+strconv.Itoa(i)] = c
	}
	return nil
}

// writers waits for the writers, and counts what is in their logs.
func (b *bed) writers(ctx context.Context, logs string) (w written, err error) {
	for i := range worker.LogWriters {
		var bytes, longest int64
		var slow int
		if err := b.answer(ctx, "written."+strconv.Itoa(i), &bytes, &longest, &slow); err != nil {
			return w, err
		}
		w.bytes, w.slow = w.bytes+bytes, w.slow+slow
		w.longest = max(w.longest, time.Duration(longest))
	}
	for range 100 { // the agent may not have written the last bytes yet
		if w.kept, err = lines(filepath.Join(b.dir, logs)); err != nil || w.kept >= w.bytes {
			return w, err
		}
		if err := b.pause(ctx, 50*time.Millisecond); err != nil {
			return w, err
		}
	}
	return w, nil
}

// lines counts the bytes of the writers' complete lines in the files that match a pattern.
func lines(pattern string) (n int64, err error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		n += int64(bytes.Count(raw, worker.LogLine) * len(worker.LogLine))
	}
	return n, nil
}
