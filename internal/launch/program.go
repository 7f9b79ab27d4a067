package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// NotFoundError means that the program does not exist. [E-PROGRAM, 127]
type NotFoundError struct {
	Name string
	Near []string // suggestions, as they would be typed
}

func (e *NotFoundError) Error() string {
	msg := fmt.Sprintf("program %s not found", e.Name)
	if len(e.Near) > 0 {
		msg += "; did you mean " + strings.Join(e.Near, ", or ")
	}
	return msg
}

// NotExecutableError means that the file exists but cannot be run. [E-PROGRAM-MODE, 126]
type NotExecutableError struct {
	Path string
	Err  error
}

func (e *NotExecutableError) Error() string {
	return fmt.Sprintf("program %s is not executable: %v", e.Path, e.Err)
}
func (e *NotExecutableError) Unwrap() error { return e.Err }

// Demo is the program that is bundled with elastic. The line "elastic run train" runs it.
const (
	Demo     = "elastic-demo"
	demoName = "train"
)

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// FindProgram returns the absolute path of the program name. With a slash it is that file.
// Otherwise it is the first executable file in path (the value of PATH), else the one in the
// directory beside. The name train is first that of a file in the working directory, and last of
// the demo. Errors: *NotFoundError, *NotExecutableError.
func FindProgram(name, path, beside string) (string, error) {
	var candidates []string
	switch {
	case strings.Contains(name, "/"), name == demoName && isFile(name):
		candidates = []string{name}
	case name != "":
		for _, dir := range append(filepath.SplitList(path), beside) {
			candidates = append(candidates, filepath.Join(dir, name)) // an empty dir is the working directory
		}
		if name == demoName {
			candidates = append(candidates, filepath.Join(beside, Demo))
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
	// As in a shell, a file that cannot be run does not hide a later one that can. It is named in
	// the error if there is no other. A directory counts only if it was given as a path.
	if refused != nil && (strings.Contains(name, "/") || !errors.Is(refused, syscall.EISDIR)) {
		return "", refused
	}
	return "", &NotFoundError{Name: name, Near: near(name)}
}

// executable tests a file with LookPath, which does not search for an absolute path, and by its first bytes.
func executable(abs string) error {
	_, err := exec.LookPath(abs)
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	if err == nil && !starts(abs) && !otherFormats() {
		return ErrNoFormat
	}
	return err
}

// ErrNoFormat is the kernel's "exec format error", known before any worker starts.
var ErrNoFormat = errors.New("it is no program, and its first line is not #! with the program that runs it")

// starts reports whether the kernel can start a file by itself. One that cannot be read counts as such.
func starts(abs string) bool {
	if st, err := os.Stat(abs); err != nil || !st.Mode().IsRegular() {
		return true
	}
	f, err := os.Open(abs)
	if err != nil {
		return true
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head) // an error is ignored: a file with less is none that starts
	return bytes.Equal(head, []byte("\x7fELF")) || bytes.HasPrefix(head[:n], []byte("#!"))
}

// otherFormats reports whether the kernel was taught other formats (binfmt_misc).
func otherFormats() bool {
	known, err := os.ReadDir("/proc/sys/fs/binfmt_misc")
	return err == nil && len(known) > 2 // register and status are always there
}

// near returns lines that run what torchrun would run: a file or a package of this name.
func near(name string) []string {
	var found []string
	for _, c := range []string{name, name + ".py"} {
		st, err := os.Stat(c)
		if name == "" || err != nil {
			continue
		}
		switch {
		case isFile(filepath.Join(c, "__main__.py")), st.Mode().IsRegular() && (strings.HasSuffix(c, ".py") ||
			st.Mode()&0o111 == 0):
			found = append(found, "python "+c)
		case st.Mode().IsRegular() && !strings.Contains(c, "/"):
			found = append(found, "./"+c)
		}
	}
	return found
}

var importsPaddle = regexp.MustCompile(`(?m)^\s*(?:import|from)\s+paddle\b`)

// UsesPaddle reports whether a script imports Paddle.
func UsesPaddle(script []byte) bool { return importsPaddle.Match(script) }

var localRank = regexp.MustCompile(`\$(?:\{local_rank\}|local_rank\b)`)

// LocalRank replaces torchrun's ${local_rank} and $local_rank in the arguments of a worker.
func LocalRank(args []string, local int) []string {
	out := slices.Clone(args)
	for i, a := range args {
		out[i] = localRank.ReplaceAllString(a, strconv.Itoa(local))
	}
	return out
}
