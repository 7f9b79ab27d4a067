// Command release makes the files of a release: for each architecture a tar, a deb, an rpm and a
// wheel for pip with the static programs; a wheel without them for other platforms; the list of the
// modules that are linked into the programs (SBOM); and the checksums of all files. The same commit
// gives the same bytes on any machine. With -check it builds a second time, from a copy of the
// sources in another directory and without a cache, and compares the checksums.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/version"
	"github.com/elasticd/elastic/python"
)

// nfpm packs debs and rpms. Later versions need modules that the public module proxy does not
// serve.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4"

var (
	architectures = []string{"amd64", "arm64"}
	programs      = []string{"elastic", "elasticd", "elastic-demo"}
)

func main() {
	asked := flag.String("version", "", "version, as v1.2.3")
	out := flag.String("out", "dist", "directory that is made anew")
	check := flag.Bool("check", false, "build once more from a copy, and compare")
	flag.Parse()
	b, err := run(*asked, *out)
	if err == nil && *check {
		err = b.again()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// build makes all files from the sources in root, in the directory out.
type build struct {
	version string // without v
	root    string
	out     string
	at      time.Time // time of the commit, and so of every file
	env     []string  // of the tools
	cache   string    // build cache, "" for that of the user
}

// run makes all files of a version, which is that of the sources.
func run(asked, out string) (build, error) {
	if asked != "v"+version.Number {
		return build{}, fmt.Errorf("-version=%q: the sources have version v%s; change internal/version/version.go, "+
			"python/elastic/__init__.py and deploy/helm/elastic/Chart.yaml first", asked, version.Number)
	}
	at, err := committed()
	if err != nil {
		return build{}, err
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return build{}, err
	}
	b := build{version: version.Number, root: ".", out: out, at: at, env: os.Environ()}
	return b, b.make()
}

// committed returns the time of the commit that is built.
func committed() (time.Time, error) {
	b, err := exec.Command("git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of the commit: %w", err)
	}
	s, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return time.Unix(s, 0).UTC(), err
}

// make makes all files.
func (b build) make() error {
	if err := os.RemoveAll(b.out); err != nil {
		return err
	}
	var linked []string
	for _, arch := range architectures {
		bin := filepath.Join(b.out, "bin", arch)
		if err := b.compile(arch, bin); err != nil {
			return err
		}
		for _, p := range programs {
			linked = append(linked, filepath.Join(bin, p))
		}
		if err := b.pack(arch, bin); err != nil {
			return err
		}
		if err := b.wheel(arch, bin); err != nil {
			return err
		}
	}
	if err := b.write(python.Wheel{}); err != nil {
		return err
	}
	if err := b.bill(linked); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(b.out, "bin")); err != nil {
		return err
	}
	return sums(b.out)
}

// compile builds the programs so that they do not depend on this machine.
func (b build) compile(arch, bin string) error {
	env := append(b.env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=")
	if b.cache != "" {
		env = append(env, "GOCACHE="+b.cache)
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w -buildid=",
		"-o", bin + "/"}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	if err := b.tool(env, "go", args...); err != nil {
		return err
	}
	for _, p := range programs {
		if err := runsOn(arch, filepath.Join(bin, p)); err != nil {
			return err
		}
	}
	return nil
}

func (b build) tool(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = b.root, env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// again builds from a copy of the commit, in another directory and without a cache, and compares
// the checksums.
func (b build) again() error {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := b
	c.root, c.out = filepath.Join(dir, "sources"), filepath.Join(dir, "out")
	c.cache = filepath.Join(dir, "cache")
	if err := os.Mkdir(c.root, 0o755); err != nil {
		return err
	}
	if err := b.tool(b.env, "sh", "-c", `git archive HEAD | tar -x -C "$0"`, c.root); err != nil {
		return err
	}
	if err := c.make(); err != nil {
		return err
	}
	first, err := os.ReadFile(filepath.Join(b.out, sumsFile))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(c.out, sumsFile))
	if err != nil {
		return err
	}
	if string(first) != string(second) {
		return errors.New("two builds differ:\n" + string(first) +
			"and, from a copy of the commit:\n" + string(second))
	}
	fmt.Printf("two builds, the same checksums:\n%s", first)
	return nil
}
