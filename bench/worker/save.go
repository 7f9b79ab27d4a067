package worker

import (
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Save is a worker that makes steps. Rank 0 saves when it is asked to. Save returns only with an
// error.
func Save() error {
	dir := os.Getenv("BENCH_DIR")
	size, err := strconv.ParseInt(os.Getenv("BENCH_SIZE"), 10, 64)
	if err := errors.Join(err, begun()); err != nil {
		return err
	}
	say := func(what string, v ...any) error {
		temp := filepath.Join(dir, "say.tmp")
		return errors.Join(os.WriteFile(temp, []byte(fmt.Sprintln(v...)), 0o600),
			os.Rename(temp, filepath.Join(dir, what)))
	}
	var longest time.Duration
	for last := time.Now(); ; {
		time.Sleep(time.Millisecond)
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
		if os.Getenv("ELASTIC_RANK") != "0" {
			continue
		}
		switch {
		case os.Remove(filepath.Join(dir, "save")) == nil:
			file, err := save(size)
			if err != nil {
				return err
			}
			last = time.Now() // the time of the save itself does not count
			if err := say("saved", file, last.UnixNano(), int64(longest)); err != nil {
				return err
			}
			longest = 0
		case os.Remove(filepath.Join(dir, "longest")) == nil:
			if err := say("step", int64(longest)); err != nil {
				return err
			}
			longest = 0
		}
	}
}

// save writes a file of new random bytes under a temporary name, and renames it.
func save(size int64) (string, error) {
	dir := os.Getenv("ELASTIC_CHECKPOINT_DIR")
	temp, name := filepath.Join(dir, "model.tmp"), filepath.Join(dir, "model.bin")
	f, err := os.Create(temp)
	if err != nil {
		return "", err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(noise(), size),
		make([]byte, 128<<10))
	return name, errors.Join(err, f.Sync(), f.Close(), os.Rename(temp, name))
}

// noise returns random bytes: no chunk occurs twice, and none can be compressed.
func noise() io.Reader {
	var seed [32]byte
	crand.Read(seed[:]) // never fails
	return rand.NewChaCha8(seed)
}
