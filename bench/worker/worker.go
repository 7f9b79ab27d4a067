// Package worker has the programs that the agents of the bench run as workers.
package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ErrCrash is returned by a worker that was asked to crash. It exits with status 3.
var ErrCrash = errors.New("crashed, as it was asked to")

// begun notes that this worker has started.
func begun() error {
	f, err := os.OpenFile(filepath.Join(os.Getenv("BENCH_DIR"), "starts", os.Getenv("ELASTIC_NODE")),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d\n", os.Getenv("ELASTIC_GENERATION"), time.Now().UnixNano())
	return errors.Join(err, f.Close())
}

// Work is a worker that notes its start, waits, and crashes when it is asked to. It returns only
// with an error.
func Work() error {
	dir := os.Getenv("BENCH_DIR")
	if err := begun(); err != nil {
		return err
	}
	for {
		if os.Getenv("ELASTIC_RANK") == "1" && os.Remove(filepath.Join(dir, "crash")) == nil {
			if err := os.WriteFile(filepath.Join(dir, "crashed"),
				[]byte(strconv.FormatInt(time.Now().UnixNano(), 10)), 0o600); err != nil {
				return err
			}
			return ErrCrash
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Wait is a worker that only waits. It returns only with an error.
func Wait() error {
	if err := begun(); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour)
	}
}
