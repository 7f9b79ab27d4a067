package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// ErrOneName means that two files of a checkpoint would be the same file, because the file system
// ignores case.
var ErrOneName = errors.New("the file system does not tell upper from lower case in names")

// distinctNames fails if two names of a checkpoint differ only in case and the file system ignores
// case.
func distinctNames(to *dirfs.Disk, m *manifest.Manifest) error {
	seen := map[string]string{}
	for _, f := range m.Files {
		for name := f.Path; name != "."; name = path.Dir(name) {
			folded := strings.ToLower(name)
			other, ok := seen[folded]
			seen[folded] = name
			if !ok || other == name {
				continue
			}
			if folds, err := foldsCase(to); folds || err != nil {
				return errors.Join(fmt.Errorf("%w: %s and %s are one file on it", ErrOneName, other, name), err)
			}
			return nil
		}
	}
	return nil
}

// foldsCase reports whether a file can be opened with its name in upper case.
func foldsCase(to *dirfs.Disk) (bool, error) {
	name := to.TempName()
	f, err := to.FS.Create(name, 0o600)
	if err != nil {
		return false, dirfs.WrapNoSpace(err)
	}
	_, err = to.FS.Lstat(strings.ToUpper(name))
	folds := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return folds, errors.Join(err, f.Close(), to.Discard(name))
}
