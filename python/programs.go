package python

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Programs reads the programs of a wheel: that of elastic, and those beside it. It returns the
// names of the programs that are not there, too.
func Programs(elastic string) (found map[string][]byte, missing []string, err error) {
	found = map[string][]byte{}
	for _, name := range Names() {
		path := filepath.Join(filepath.Dir(elastic), name)
		if name == "elastic" {
			path = elastic
		}
		data, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, name)
		case err != nil:
			return nil, nil, err
		default:
			found[name] = data
		}
	}
	return found, missing, nil
}
