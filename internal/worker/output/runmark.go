package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// runFile in a log directory names the run of the job whose output lies there.
const runFile = ".run"

// claim moves the logs of another run aside: workerlog.0 becomes workerlog.0.1, or the next number
// that is free. The files are moved before the name of the run is written, so a crash in between
// repeats nothing.
func (l *Logs) claim(run string) error {
	path := filepath.Join(l.dir, runFile)
	before, err := os.ReadFile(path)
	if run == "" || err == nil && string(before) == run+"\n" {
		return nil
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("look for older logs: %w", err)
	}
	var bad error
	for _, e := range entries {
		if e.Type().IsRegular() && isLog(e.Name()) {
			bad = errors.Join(bad, moveAside(filepath.Join(l.dir, e.Name())))
		}
	}
	if bad != nil {
		return fmt.Errorf("move older logs aside: %w", bad)
	}
	return l.Adopt(run)
}

// Adopt says that what lies in the directory belongs to run from now on.
func (l *Logs) Adopt(run string) error {
	path := filepath.Join(l.dir, runFile)
	if err := os.WriteFile(path+"~", []byte(run+"\n"), 0o600); err != nil {
		return fmt.Errorf("note whose logs these are: %w", err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		return fmt.Errorf("note whose logs these are: %w", err)
	}
	return nil
}

// isLog reports whether name is the log of a worker that is written, not one that was rotated.
func isLog(name string) bool {
	stem, rank, ok := strings.Cut(name, ".")
	_, number := parseRank(strings.TrimSuffix(rank, errSuffix))
	stems := []string{"workerlog", "serverlog", "heterlog", "coordinatorlog"}
	return ok && number && slices.Contains(stems, stem)
}

// moveAside gives a log the next number. An empty one is left where it is.
func moveAside(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	return os.Rename(path, rotatedLog(path, LastRotated(path)+1))
}
