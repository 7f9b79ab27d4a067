package python

import (
	_ "embed"
	"os"
	"path/filepath"
)

//go:embed warm/sitecustomize.py
var warm []byte

// WarmDir is the directory, below that of the helper, that is first in the PYTHONPATH of a process
// that waits for its World. Its name is none that could be imported.
const WarmDir = ".warm"

func writeWarm(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, WarmDir), 0o700); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, WarmDir, "sitecustomize.py"), warm)
}
