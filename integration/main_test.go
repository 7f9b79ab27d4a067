// Package integration runs the real binaries as real processes on this
// machine, and holds them to docs/REFERENCE.md. COUNT makes what is repeated
// or endured longer.
package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// bin is where elastic, elasticd and train were built, once, by TestMain.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // these tests wait for processes, they do not compute
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "elastic-bin")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		bin = dir
		build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "../cmd/...")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the binaries: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// soak is COUNT, 1 without it.
func soak(t testing.TB) int {
	t.Helper()
	v := os.Getenv("COUNT")
	if v == "" {
		return 1
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("COUNT=%s: a whole number from 1 up", v)
	}
	return n
}

// endure is d in `make test`, and long where COUNT asks for more.
func endure(t testing.TB, d, long time.Duration) time.Duration {
	if soak(t) > 1 {
		return long
	}
	return d
}
