package python

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// built is the name of a program as `make build` writes it, if it is not that in the wheel.
var built = map[string]string{"elastic-demo": "train"}

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
		if other := built[name]; errors.Is(err, fs.ErrNotExist) && other != "" {
			data, err = os.ReadFile(filepath.Join(filepath.Dir(elastic), other))
		}
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
