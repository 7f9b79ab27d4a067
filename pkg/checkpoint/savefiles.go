package checkpoint

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// SaveFiles are the names of the files that make one save, as the user typed them: names in the
// checkpoint directory, joined by commas. "": the user named none.
type SaveFiles string

// Names returns the names; nil: none.
func (f SaveFiles) Names() []string {
	if f == "" {
		return nil
	}
	return strings.Split(string(f), ",")
}

// Check returns an error that says which name is not valid.
func (f SaveFiles) Check() error {
	stars, names := 0, f.Names()
	for i, name := range names {
		switch n := strings.Count(name, "*"); {
		case name == "" || path.Clean(name) != name || path.IsAbs(name) || strings.HasPrefix(name, ".."):
			return fmt.Errorf("%q is no path in the checkpoint directory", name)
		case n > 1:
			return fmt.Errorf("%q has more than one *", name)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("%q is there twice", name)
		default:
			stars += n
		}
	}
	if stars != 0 && stars != len(names) {
		return errors.New("either each name has one *, or none has")
	}
	return nil
}
