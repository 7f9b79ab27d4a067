package launch

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/elasticd/elastic/internal/regular"
)

// interpreters are the names of CPython.
var interpreters = regexp.MustCompile(`^python[0-9.]*t?$`)

// Script is the script or module that a Python interpreter runs.
type Script struct {
	Kind string // "script" or "module"
	Name string
}

// PythonScript returns the script that program runs with args. It returns false if program is not a
// Python interpreter, or does not import sitecustomize from PYTHONPATH at its start.
func PythonScript(program string, args []string) (Script, bool) {
	if !interpreters.MatchString(filepath.Base(program)) || !binary(program) {
		return Script{}, false
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-" || a == "--" || strings.HasPrefix(a, "--"):
			return Script{}, false
		case !strings.HasPrefix(a, "-"):
			return Script{Kind: "script", Name: a}, true
		}
		rest := strings.TrimLeft(a[1:], "bBdOPquv") // switches that do not affect sitecustomize
		switch {
		case rest == "":
		case rest == "m" && i+1 < len(args):
			return Script{Kind: "module", Name: args[i+1]}, true
		case rest[0] == 'm' && len(rest) > 1:
			return Script{Kind: "module", Name: rest[1:]}, true
		case rest == "W" || rest == "X":
			i++
		case rest[0] == 'W' || rest[0] == 'X':
		default:
			return Script{}, false
		}
	}
	return Script{}, false
}

// binary reports whether a program is an executable. A script could start Python with another
// environment.
func binary(program string) bool {
	f, err := regular.Open(program)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = f.Read(magic)
	return err == nil && bytes.Equal(magic, []byte("\x7fELF"))
}

// ForWorkers reports whether only workers use a variable. No library reads it before the worker is
// in a world.
func ForWorkers(name string) bool { return onlyForWorkers(name) && name != "PYTHONUNBUFFERED" }
