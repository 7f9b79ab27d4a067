package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/problem"
)

const (
	defaultIdle = 60 * time.Second
	// IdleEnv shortens the life of an idle server in tests.
	IdleEnv = "ELASTICD_IDLE"
	// socketMax is the kernel's limit for the path of a socket.
	socketMax = 107
)

// Locate returns the directories of this user. stateDir is the value of --state-dir. env reads the
// environment.
func Locate(stateDir string, env func(string) string) (Runtime, error) {
	state, err := State(stateDir, env)
	if err != nil {
		return Runtime{}, err
	}
	r := Runtime{Dir: runtimeDir(env), Data: filepath.Join(state, "elasticd"), Idle: defaultIdle}
	if idle, err := time.ParseDuration(env(IdleEnv)); err == nil && idle > 0 {
		r.Idle = idle
	}
	return r, nil
}

// Shared returns the Runtime of the server of an address, with directories of its own beside those
// of the local server. At an address of loopback, which no other machine reaches, the server only
// has its socket. An open server never takes over the data of a closed one, nor the other way round.
func (r Runtime) Shared(ip netip.AddrPort, a Access) Runtime {
	name := "-" + strconv.Itoa(int(ip.Port()))
	if !ip.Addr().IsLoopback() {
		name = "-" + ip.Addr().WithZone("").String() + name
	}
	if a.Open {
		name += "-open"
	}
	r.Dir, r.Data = r.Dir+name, r.Data+name
	if a.Open || !ip.Addr().IsLoopback() {
		r.Listen, r.Access = ip.String(), a
	}
	return r
}

// State returns the subdirectory of the state directory for this machine. Several machines may
// share a state directory.
func State(stateDir string, env func(string) string) (string, error) {
	root, err := stateRoot(stateDir, env)
	if err != nil {
		return "", err
	}
	host, err := os.Hostname()
	if host, _, _ = strings.Cut(host, "."); err != nil || host == "" {
		host = "localhost"
	}
	return filepath.Join(root, host), nil
}

func stateRoot(stateDir string, env func(string) string) (string, error) {
	if stateDir == "" {
		stateDir = env("ELASTIC_STATE_DIR")
	}
	if x := env("XDG_STATE_HOME"); stateDir == "" && filepath.IsAbs(x) {
		stateDir = filepath.Join(x, "elastic")
	}
	if home := env("HOME"); stateDir == "" && writableHome(home) {
		stateDir = filepath.Join(home, ".local", "state", "elastic")
	}
	if stateDir == "" { // as in a container whose user has no home
		stateDir = Homeless()
		if err := private(stateDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	abs, err := filepath.Abs(stateDir)
	if err != nil {
		return "", problem.New(problem.StateDir, "state directory %s: %v", stateDir, err).
			Cure("--state-dir=DIR with an absolute path")
	}
	return abs, nil
}

// Homeless returns the state directory of a user without a home directory that can be written.
func Homeless() string { return filepath.Join("/tmp", "elastic-"+strconv.Itoa(os.Geteuid())+"-state") }

// writableHome reports whether the default state directory is below home: it is there, or it can be
// made.
func writableHome(home string) bool {
	if home == "" {
		return false
	}
	dir := filepath.Join(home, ".local", "state", "elastic")
	for {
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); !errors.Is(err, unix.ENOENT) {
			return err == nil
		}
		if dir == "/" || dir == "." {
			return false
		}
		dir = filepath.Dir(dir)
	}
}

// runtimeDir returns $XDG_RUNTIME_DIR/elastic if this user owns it or can create it. After su or
// sudo the variable still names the directory of another user.
func runtimeDir(env func(string) string) string {
	fallback := filepath.Join("/tmp", "elastic-"+strconv.Itoa(os.Geteuid()))
	base := env("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(base) {
		return fallback
	}
	dir := filepath.Join(base, "elastic")
	if _, err := os.Lstat(dir); err == nil {
		return dir
	}
	var st unix.Stat_t
	if unix.Stat(base, &st) == nil {
		if int(st.Uid) == os.Geteuid() && unix.Access(base, unix.W_OK|unix.X_OK) == nil {
			return dir
		}
		return fallback
	}
	if unix.Access(filepath.Dir(base), unix.W_OK|unix.X_OK) == nil {
		return dir
	}
	return fallback
}

// private returns an error if others can access dir, or fs.ErrNotExist.
func private(dir string) error {
	var st unix.Stat_t
	err := unix.Lstat(dir, &st)
	bad := func(format string, args ...any) error {
		return problem.New(problem.LocalOwner, "runtime directory %s %s", dir, fmt.Sprintf(format, args...)).
			Because("a user who can write there could pose as your server").
			Cure("remove it, or set XDG_RUNTIME_DIR to a directory of yours with mode 0700")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil:
		return bad("cannot be looked at: %v", err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return bad("is not a directory")
	case int(st.Uid) != os.Geteuid():
		return bad("belongs to user %d, you are %d", st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		return bad("is open to others (mode %04o)", st.Mode&0o777)
	}
	return nil
}

// prepare creates the directories.
func (r Runtime) prepare() error {
	if n := len(r.Socket()); n > socketMax {
		return problem.New(problem.LocalStart, "the path of the socket, %s, has %d characters", r.Socket(), n).
			Because("the kernel takes %d", socketMax).
			Cure("set XDG_RUNTIME_DIR to a directory with a shorter path")
	}
	if err := os.MkdirAll(filepath.Dir(r.Dir), 0o700); err == nil {
		if err := os.Mkdir(r.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return problem.New(problem.LocalStart, "runtime directory: %v", err).
				Cure("set XDG_RUNTIME_DIR to a directory of yours")
		}
	}
	if err := private(r.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.Data, 0o700); err != nil {
		return problem.New(problem.StateDir, "state directory: %v", err).
			Cure("--state-dir=DIR, on a disk of this machine")
	}
	return nil
}

// lock takes the start locks of the runtime directory and of the data directory, in this order.
// Closing the files releases them.
func (r Runtime) lock(ctx context.Context) ([]*os.File, error) {
	var held []*os.File
	for _, path := range r.locks() {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			held = append(held, f)
			err = flock(ctx, f)
		}
		if err != nil {
			closeAll(held)
			return nil, problem.New(problem.LocalStart, "start the local server: lock %s: %v", path, err).
				Because("another command is starting it, or the disk is full").Cure("try again")
		}
	}
	return held, nil
}

func (r Runtime) locks() []string {
	return []string{filepath.Join(r.Dir, "elasticd.lock"), filepath.Join(r.Data, "start.lock")}
}

// flock polls, because a lock cannot be watched, and a wait in the kernel cannot be cancelled.
func flock(ctx context.Context, f *os.File) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
