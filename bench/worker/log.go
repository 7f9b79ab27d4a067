package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The rate at which the workers write: together a gigabyte in LogFor.
const (
	LogWriters = 8
	LogFor     = time.Minute
	logRate    = 1e9 / LogWriters / 60 // bytes per second of each worker
	logSlot    = 2 * time.Millisecond
)

// LogLine is the line that the workers write.
var LogLine = append(bytes.Repeat([]byte("step 1234567 loss 0.123456 "), 4), '\n')

// Log is a worker that writes lines at an even rate. It returns only with an error.
func Log() error {
	var total int64
	var longest time.Duration
	var slow int
	began := time.Now()
	for took := time.Duration(0); took < LogFor; took = time.Since(began) {
		due := int64(took.Seconds() * logRate)
		count := max(0, due-total) / int64(len(LogLine))
		some := bytes.Repeat(LogLine, int(count))
		at := time.Now()
		if _, err := os.Stdout.Write(some); err != nil {
			return err
		}
		one := time.Since(at)
		longest = max(longest, one)
		if one > 10*time.Millisecond {
			slow++
		}
		total += int64(len(some))
		time.Sleep(logSlot)
	}
	dir, rank := os.Getenv("BENCH_DIR"), os.Getenv("ELASTIC_RANK")
	temp := filepath.Join(dir, "writing."+rank)
	err := errors.Join(os.WriteFile(temp, fmt.Appendln(nil, total, int64(longest), slow), 0o600),
		os.Rename(temp, filepath.Join(dir, "written."+rank)))
	if err != nil {
		return err
	}
	time.Sleep(time.Hour) // the job must run until its logs are counted
	return nil
}
