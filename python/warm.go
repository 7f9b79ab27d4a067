package python

import (
	_ "embed"
	"os"
	"path/filepath"
)

//go:embed warm/sitecustomize.py
var warm []byte

// WarmDir is a directory in that of the helper. It comes first in the PYTHONPATH of a warm worker.
// Its name cannot be imported.
const WarmDir = ".warm"

func writeWarm(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, WarmDir), 0o700); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, WarmDir, "sitecustomize.py"), warm)
}
