package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/problem"
)

func TestLocate(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	base := t.TempDir()
	own, theirs := filepath.Join(base, "own"), filepath.Join(base, "theirs")
	for dir, mode := range map[string]os.FileMode{own: 0o700, theirs: 0o500} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(theirs, 54321, -1); err != nil {
			t.Fatal(err)
		}
	}
	tmp := "/tmp/elastic-" + strconv.Itoa(os.Geteuid())
	for name, c := range map[string]struct {
		flag      string
		env       map[string]string
		dir, data string
		idle      time.Duration
	}{
		"nothing but a home": {"", map[string]string{"HOME": "/home/ada"}, tmp,
			"/home/ada/.local/state/elastic/" + host + "/elasticd", time.Minute},
		"the flag": {"/s", map[string]string{"ELASTIC_STATE_DIR": "/e", "HOME": "/h"}, tmp,
			"/s/" + host + "/elasticd", time.Minute},
		"the variable": {"", map[string]string{"ELASTIC_STATE_DIR": "/e", "XDG_STATE_HOME": "/x"},
			tmp, "/e/" + host + "/elasticd", time.Minute},
		"XDG": {"", map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h", "XDG_RUNTIME_DIR": own},
			own + "/elastic", "/x/elastic/" + host + "/elasticd", time.Minute},
		"a relative XDG is none": {"", map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h",
			"XDG_RUNTIME_DIR": "r"}, tmp, "/h/.local/state/elastic/" + host + "/elasticd", time.Minute},
		"another user's runtime": {"/s", map[string]string{"XDG_RUNTIME_DIR": theirs}, tmp, "/s/" + host +
			"/elasticd", time.Minute},
		"a runtime that is not there": {"/s", map[string]string{"XDG_RUNTIME_DIR": "/nowhere/run/user/1"},
			tmp, "/s/" + host + "/elasticd", time.Minute},
		"a runtime that can be made": {"/s", map[string]string{"XDG_RUNTIME_DIR": own + "/new"}, own +
			"/new/elastic", "/s/" + host + "/elasticd", time.Minute},
		"a shorter idle time, for tests": {"/s", map[string]string{local.IdleEnv: "2s"}, tmp, "/s/" + host +
			"/elasticd", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := local.Locate(c.flag, func(k string) string { return c.env[k] })
			if err != nil || r.Dir != c.dir || r.Data != c.data || r.Idle != c.idle {
				t.Errorf("%+v, %v; want %s, %s, %s", r, err, c.dir, c.data, c.idle)
			}
		})
	}
	r, err := local.Locate("", func(string) string { return "" })
	if err != nil || r.Data != filepath.Join(local.Homeless(), host, "elasticd") {
		t.Errorf("without a home: %+v, %v", r, err)
	}
}

func TestRuntimeDirectoryMustBePrivate(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, r *local.Runtime) error{
		"open to others": func(_ *testing.T, r *local.Runtime) error { return os.Chmod(r.Dir, 0o711) },
		"a link": func(_ *testing.T, r *local.Runtime) error {
			if err := os.Rename(r.Dir, r.Dir+".real"); err != nil {
				return err
			}
			return os.Symlink(r.Dir+".real", r.Dir)
		},
		"a file": func(_ *testing.T, r *local.Runtime) error {
			if err := os.Remove(r.Dir); err != nil {
				return err
			}
			return os.WriteFile(r.Dir, nil, 0o600)
		},
		"another user's": func(_ *testing.T, r *local.Runtime) error {
			if os.Geteuid() != 0 {
				r.Dir = "/root" // of a user that we are not
				return nil
			}
			return os.Chown(r.Dir, 54321, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := place(t)
			if err := os.Mkdir(r.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := spoil(t, &r); err != nil {
				t.Fatal(err)
			}
			if _, err := local.Find(t.Context(), r); !problem.Is(err, problem.LocalOwner) {
				t.Errorf("find: %v", err)
			}
			if _, _, err := local.Ensure(t.Context(), r); !problem.Is(err, problem.LocalOwner) {
				t.Errorf("ensure: %v", err)
			}
		})
	}
}

func TestUnusableDirectories(t *testing.T) {
	long := place(t)
	long.Dir = filepath.Join(long.Dir, strings.Repeat("x", 100))
	if _, _, err := local.Ensure(t.Context(), long); !problem.Is(err, problem.LocalStart) ||
		!strings.Contains(err.Error(), "characters") {
		t.Errorf("a path that is too long for a socket: %v", err)
	}
	file := place(t)
	if err := os.WriteFile(filepath.Dir(file.Data), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := local.Ensure(t.Context(), file); !problem.Is(err, problem.StateDir) {
		t.Errorf("a file in place of the state directory: %v", err)
	}
}

func TestNothingIsMadeByLooking(t *testing.T) {
	r := place(t)
	if _, err := local.Find(t.Context(), r); !errors.Is(err, local.ErrNone) {
		t.Fatalf("find: %v", err)
	}
	if r.HasData() {
		t.Error("data in an empty place")
	}
	for _, dir := range []string{r.Dir, r.Data} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s was made", dir)
		}
	}
}
