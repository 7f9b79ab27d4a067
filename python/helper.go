// Package python embeds the Python helper, so that `import elastic` works in every worker without
// an installation. The files are in elastic/. Their unit tests are in tests/.
package python

import (
	"bytes"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed elastic/*.py elastic/py.typed
var files embed.FS

// Write writes the package into dir, which can then be in PYTHONPATH, and removes other modules of
// the package. It does not touch files that are already right, because workers may be reading them.
func Write(dir string) error {
	stale, err := existing(dir)
	if err != nil {
		return err
	}
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		path := filepath.Join(dir, name)
		delete(stale, path)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(path, 0o700)
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return writeFile(path, data)
	})
	for path := range stale {
		if err == nil {
			err = os.Remove(path)
		}
	}
	if err == nil {
		err = writeWarm(dir)
	}
	if err == nil {
		err = writeWatch(dir)
	}
	return err
}

// existing returns the modules of the package that are in dir.
func existing(dir string) (map[string]bool, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "elastic", "*.py"))
	found := map[string]bool{}
	for _, p := range paths {
		found[p] = true
	}
	return found, err
}

// writeFile replaces a file atomically, so that an interpreter reads the old or the new one.
func writeFile(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
