package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// output runs a program to its end and returns its stdout. The error holds the
// last words of its stderr.
func output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, words bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &words
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s",
			name, strings.Join(args, " "), err, tail(strings.TrimSpace(words.String())))
	}
	return out.String(), nil
}

func tail(s string) string {
	const most = 20_000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

// tools finds docker-compose, in whichever form it is installed, and a docker
// that answers. The error is the one sentence that says what to install or start.
func tools(ctx context.Context) ([]string, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, errors.New("these tests need docker, which is not in PATH: install docker.io and " +
			"docker-compose (Debian), or Docker Engine with its compose plugin")
	}
	compose := []string{"docker-compose"}
	if _, err := exec.LookPath("docker-compose"); err != nil {
		if _, err := output(ctx, nil, "docker", "compose", "version"); err != nil {
			return nil, errors.New("these tests need docker-compose, which is neither in PATH nor a plugin " +
				"of docker: install docker-compose (Debian) or docker-compose-plugin (Docker's own packages)")
		}
		compose = []string{"docker", "compose"}
	}
	if _, err := output(ctx, nil, "docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		return nil, errors.New("these tests need a docker daemon, and none answers this user: start " +
			"dockerd (as root), or set DOCKER_HOST")
	}
	return compose, nil
}

// Without docker the tests fail at once, and say what to install.
func TestWithoutDocker(t *testing.T) {
	stub := func(name, script string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	none := stub("docker", "exit 1")
	only := t.TempDir()
	if err := os.Symlink(docker, filepath.Join(only, "docker")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"nothing installed": {[]string{"PATH=" + t.TempDir()}, "install docker.io and docker-compose"},
		"no docker-compose": {[]string{"PATH=" + none}, "install docker-compose (Debian)"},
		"no daemon": {[]string{"PATH=" + only + ":" + stub("docker-compose", "exit 0"),
			"DOCKER_HOST=unix:///nonexistent"}, "start dockerd"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestScale$")
			cmd.Env = c.env
			out, err := cmd.CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); !failed {
				t.Errorf("it ended with %v, want a failure", err)
			}
			if said := strings.TrimSuffix(string(out), "\n"); !strings.Contains(said, c.want) ||
				strings.Contains(said, "\n") {
				t.Errorf("it said %q, want one line with %q", said, c.want)
			}
		})
	}
}
