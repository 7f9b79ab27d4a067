package launch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/elasticd/elastic/internal/regular"
)

// ServerCore reports whether an installed Paddle has parameter servers. is_compiled_with_distribute
// and core.is_compiled_with_brpc are true even in wheels without them.
type ServerCore struct {
	Version string
	Library string // path; "": Paddle was not found
	Servers bool
}

// findPaddle prints the library and the version of Paddle, without importing it.
const findPaddle = `import importlib.util, os, re
spec = importlib.util.find_spec("paddle")
if spec and spec.submodule_search_locations:
    top = list(spec.submodule_search_locations)[0]
    for name in ("base/libpaddle.so", "fluid/libpaddle.so", "fluid/core_avx.so"):
        path = os.path.join(top, name)
        if os.path.exists(path):
            text = open(os.path.join(top, "version", "__init__.py")).read()
            found = re.search(r"full_version\s*=\s*'([^']*)'", text)
            print(path)
            print(found.group(1) if found else "of an unknown version")
            break
`

// coreClass is a class of the trainers. Its name is in the library if Paddle has parameter servers.
const coreClass = "DistFleetWrapper"

// FindServerCore examines the Paddle that this Python imports.
func FindServerCore(python string, environ []string) (ServerCore, error) {
	cmd := exec.Command(python, "-c", findPaddle)
	cmd.Env = environ
	out, err := cmd.Output()
	if err != nil {
		return ServerCore{}, fmt.Errorf("find paddle: %w", err)
	}
	path, version, found := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !found {
		return ServerCore{}, nil
	}
	f, err := regular.Open(path)
	if err != nil {
		return ServerCore{}, fmt.Errorf("read paddle: %w", err)
	}
	defer f.Close()
	has, err := contains(f, []byte(coreClass))
	return ServerCore{Version: version, Library: path, Servers: has}, err
}

// contains reports whether word occurs in r.
func contains(r io.Reader, word []byte) (bool, error) {
	const piece = 1 << 20
	in := bufio.NewReaderSize(r, piece)
	for {
		b, err := in.Peek(piece)
		if bytes.Contains(b, word) {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if _, err := in.Discard(piece - len(word)); err != nil {
			return false, err
		}
	}
}
