package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/regular"
)

// runFile in a log directory has the name of the run whose logs are there.
const runFile = ".run"

// moveOtherRun renames the logs of another run: workerlog.0 becomes workerlog.0.1, or the next free
// number. The name of the run is written last, so a crash before that is harmless.
func (l *Logs) moveOtherRun(run string) error {
	path := filepath.Join(l.dir, runFile)
	before, err := regular.Read(path, regular.Small)
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

// Adopt makes run the owner of the logs in the directory.
func (l *Logs) Adopt(run string) error {
	if err := regular.Replace(filepath.Join(l.dir, runFile), []byte(run+"\n")); err != nil {
		return fmt.Errorf("note whose logs these are: %w", err)
	}
	return nil
}

// isLog reports whether name is a log in use, and not a rotated one.
func isLog(name string) bool {
	stem, rank, ok := strings.Cut(name, ".")
	_, number := parseRank(strings.TrimSuffix(rank, errSuffix))
	stems := []string{"workerlog", "serverlog", "heterlog"}
	return ok && number && slices.Contains(stems, stem)
}

// moveAside renames a log to the next number. It does not rename an empty one.
func moveAside(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	to := rotatedLog(path, LastRotated(path)+1)
	if err := os.Rename(path, to); err != nil {
		return err
	}
	return logs.RenameTimes(path, to)
}
