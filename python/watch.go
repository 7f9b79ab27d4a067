package python

import (
	_ "embed"
	"os"
	"path/filepath"
)

//go:embed watch/sitecustomize.py
var watch []byte

// WatchDir is a directory in that of the helper. It comes first in the PYTHONPATH of a worker, which
// then answers questions about what it is doing. Its name cannot be imported.
const WatchDir = ".watch"

func writeWatch(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, WatchDir), 0o700); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, WatchDir, "sitecustomize.py"), watch)
}
