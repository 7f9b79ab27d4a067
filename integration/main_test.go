// Package integration runs the real binaries as real processes on this
// machine, and checks them against docs/REFERENCE.md. COUNT sets the number of
// repetitions, or makes tests longer.
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

// bin is where elastic, elasticd and elastic-demo were built, once, by TestMain.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // these tests mostly wait for processes
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

// soak returns COUNT, 1 if it is not set.
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

// endure returns d in `make test`, and long if COUNT is larger.
func endure(t testing.TB, d, long time.Duration) time.Duration {
	if soak(t) > 1 {
		return long
	}
	return d
}
