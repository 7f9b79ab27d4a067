package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// interpreters are the names of CPython.
var interpreters = regexp.MustCompile(`^python[0-9.]*t?$`)

// Script is what a Python interpreter is to run.
type Script struct {
	Kind string // "script" or "module"
	Name string
}

// PythonScript is what a program with args runs, if the program is a Python interpreter itself and
// imports its sitecustomize from PYTHONPATH first; false if it is none, or one that may not.
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
		rest := strings.TrimLeft(a[1:], "bBdOPquv") // switches that leave sitecustomize alone
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

// binary reports whether a program is no script, which could start Python with another environment.
func binary(program string) bool {
	f, err := os.Open(program)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = f.Read(magic)
	return err == nil && bytes.Equal(magic, []byte("\x7fELF"))
}

// ForWorkers reports whether a variable has a meaning for workers alone: no library reads it before
// it takes part in a World.
func ForWorkers(name string) bool { return ours(name) && name != "PYTHONUNBUFFERED" }
