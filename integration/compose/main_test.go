// Package compose starts the project's docker-compose.yml, causes faults, and
// checks the job against docs/REFERENCE.md. COUNT repeats each test.
package compose

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What TestMain made, once: the binaries of this tree, in a directory and in an
// image, and how docker-compose is called here.
var (
	bin     string
	image   string
	compose []string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		var err error
		if compose, err = tools(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		dir, err := os.MkdirTemp("", "elastic-image")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		// A project and an image of this run alone, not those that an earlier run left.
		run := "elastic-test-" + strings.ToLower(rand.Text()[:10])
		bin, image, project = filepath.Join(dir, "bin"), run+":run", run+"-"
		clear, err := janitor(run, dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer clear()
		if err := build(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// build makes the image as `make image` does, under a name of its own.
func build(ctx context.Context, dir string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if _, err := output(ctx, env, "go", "build", "-trimpath", "-o", bin+string(filepath.Separator),
		"../../cmd/..."); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(bin, "data"), 0o755); err != nil {
		return err
	}
	_, err = output(ctx, nil, "docker", "build", "-q", "-t", image, "-f",
		filepath.Join(root, "deploy", "Dockerfile"), dir)
	return err
}

// janitor starts a process that outlives this one, however it ends, and then
// removes dir and all that bears this run's name. clear has it do so now.
func janitor(run, dir string) (clear func(), err error) {
	const script = `cat
docker ps -aq --filter name=$0 | xargs -r docker rm -fv
docker network ls -q --filter name=$0 | xargs -r docker network rm
docker volume ls -q --filter name=$0 | xargs -r docker volume rm
docker rmi -f $0:run
rm -rf "$1"`
	cmd := exec.Command("sh", "-c", script, run, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		hold.Close()
		_ = cmd.Wait() // its status is that of a removal of what may be gone
	}, nil
}

// repeat runs f COUNT times, once without it.
func repeat(t *testing.T, f func(*testing.T)) {
	n := 1
	if v := os.Getenv("COUNT"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil || n < 1 {
			t.Fatalf("COUNT=%s: a whole number from 1 up", v)
		}
	}
	for i := range n {
		if !t.Run(strconv.Itoa(i+1), f) {
			return
		}
	}
}
