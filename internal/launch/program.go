package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// NotFoundError: there is no such program. [E-PROGRAM, 127]
type NotFoundError struct {
	Name string
	Near []string // what the user may have meant, as it would be typed
}

func (e *NotFoundError) Error() string {
	msg := fmt.Sprintf("program %s not found", e.Name)
	if len(e.Near) > 0 {
		msg += "; did you mean " + strings.Join(e.Near, ", or ")
	}
	return msg
}

// NotExecutableError: the file is there and cannot be run. [E-PROGRAM-MODE, 126]
type NotExecutableError struct {
	Path string
	Err  error
}

func (e *NotExecutableError) Error() string {
	return fmt.Sprintf("program %s is not executable: %v", e.Path, e.Err)
}
func (e *NotExecutableError) Unwrap() error { return e.Err }

// FindProgram is the absolute path of the file to run for name: with a slash
// that file, else the first executable one in path (the value of PATH), else the
// one in the directory beside. *NotFoundError or *NotExecutableError otherwise.
func FindProgram(name, path, beside string) (string, error) {
	var candidates []string
	if strings.Contains(name, "/") {
		candidates = []string{name}
	} else if name != "" {
		for _, dir := range append(filepath.SplitList(path), beside) {
			candidates = append(candidates, filepath.Join(dir, name)) // an empty one is the working directory
		}
	}
	var refused *NotExecutableError
	for _, c := range candidates {
		abs, err := filepath.Abs(c)
		if err != nil {
			return "", fmt.Errorf("find program %s: %w", name, err)
		}
		if err := executable(abs); err == nil {
			return abs, nil
		} else if refused == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			refused = &NotExecutableError{c, err}
		}
	}
	// As in a shell: what cannot be run hides nothing that can, and is better
	// named than passed over. A directory counts only if it was asked for by path.
	if refused != nil && (strings.Contains(name, "/") || !errors.Is(refused, syscall.EISDIR)) {
		return "", refused
	}
	return "", &NotFoundError{Name: name, Near: near(name)}
}

// executable asks the kernel through LookPath, which does not search when given
// an absolute path.
func executable(abs string) error {
	_, err := exec.LookPath(abs)
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

func near(name string) []string {
	var found []string
	for _, c := range []string{name, name + ".py"} {
		if st, err := os.Stat(c); name == "" || err != nil || !st.Mode().IsRegular() {
			continue
		}
		switch {
		case strings.HasSuffix(c, ".py"):
			found = append(found, "python "+c)
		case !strings.Contains(c, "/"):
			found = append(found, "./"+c)
		}
	}
	return found
}

var importsPaddle = regexp.MustCompile(`(?m)^\s*(?:import|from)\s+paddle\b`)

// UsesPaddle reports whether a script imports Paddle.
func UsesPaddle(script []byte) bool { return importsPaddle.Match(script) }
