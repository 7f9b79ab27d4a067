package coordinator

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/problem"
)

const pagesSocket = "pages.sock"

// directory is a data directory that this process has locked.
type directory struct {
	path   string
	lock   *os.File
	handle *os.File // the open directory, for short paths to sockets in it
}

// hold locks the data directory. Without this lock, a second etcd would bind the ports and then
// wait silently for etcd's own lock.
func hold(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, dirError("make data directory", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dirError("lock data directory", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(lock.Name())
		lock.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, dirError("lock data directory "+path, err)
		}
		return nil, inUse(path, "process "+strings.TrimSpace(string(pid)))
	}
	handle, err := os.Open(path)
	if err != nil {
		lock.Close()
		return nil, dirError("open data directory", err)
	}
	d := &directory{path: path, lock: lock, handle: handle}
	if err := d.recordOwner(); err != nil {
		d.release()
		return nil, err
	}
	return d, nil
}

func (d *directory) release() {
	d.handle.Close()
	d.lock.Close()
}

// pages returns the socket on which etcd serves HTTP until unlink. The path stays valid until
// release.
func (d *directory) pages() string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.handle.Fd(), pagesSocket)
}

func (d *directory) unlink() error { return os.Remove(filepath.Join(d.path, pagesSocket)) }

// dirError returns the error for a data directory that the system refuses.
func dirError(what string, err error) error {
	fix := "another --data-dir"
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		fix = "make space on that disk, or another --data-dir"
	}
	return problem.New(problem.DataDir, "%s: %v", what, err).Cure("%s", fix)
}

// recordOwner writes the pid into the lock file. It also tests whether a plain etcd, which does not use
// this lock, has locked the database.
func (d *directory) recordOwner() error {
	if err := d.lock.Truncate(0); err != nil {
		return dirError("lock data directory", err)
	}
	if _, err := d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return dirError("lock data directory", err)
	}
	db, err := os.Open(filepath.Join(d.path, "member", "snap", "db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return dirError("open data directory", err)
	}
	defer db.Close()
	if err := unix.Flock(int(db.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return inUse(d.path, "an etcd")
	}
	return nil
}

func inUse(path, by string) error {
	return problem.New(problem.DataDir, "data directory %s is in use by %s", path, by).
		Because("two servers on the same data would destroy it").Cure("stop that one, or another --data-dir")
}

// identity is written to a data directory at its first start.
type identity struct {
	Format int    `json:"format"`
	Name   string `json:"name"`
	Token  string `json:"token"`
}

// identify returns the identity of the directory, and whether it must be written. given is the name
// that the operator gave, if any.
func (d *directory) identify(c Config, given string) (id identity, fresh bool, err error) {
	found, err := d.remembered()
	if err != nil {
		return id, false, err
	}
	if found == nil {
		id = identity{Format: 1, Name: c.Name, Token: c.Token}
		switch {
		case id.Token != "":
		case c.single() && !d.started():
			id.Token = rand.Text() // otherwise a wiped store looks like the old one
		default:
			id.Token = embed.NewConfig().InitialClusterToken
		}
		return id, true, nil
	}
	if given != "" && given != found.Name {
		return id, false, problem.New(problem.DataDir, "data directory %s belongs to member %s, this is %s",
			d.path, found.Name, given).Because("a member that starts on the data of another one votes twice").
			Cure("--name=%s, or another --data-dir", found.Name)
	}
	if c.Token != "" && c.Token != found.Token {
		return id, false, problem.New(problem.DataDir,
			"data directory %s belongs to another cluster (its token is %s)", d.path, found.Token).
			Because("etcd would go on with the old cluster and not say so").Cure("another --data-dir")
	}
	if err := d.checkLog(c); err != nil {
		return id, false, err
	}
	if id = *found; c.Token == "" && c.single() && !d.started() {
		id.Token, fresh = rand.Text(), true // as above: the data of etcd was removed
	}
	return id, fresh, nil
}

// checkLog fails if there is a database without its log. etcd would start a new log, and wait forever
// for entries that only the database has.
func (d *directory) checkLog(c Config) error {
	member := filepath.Join(d.path, "member")
	if _, err := os.Stat(filepath.Join(member, "snap", "db")); err != nil {
		return nil // etcd reports these errors
	}
	log := filepath.Join(member, "wal")
	list, err := os.ReadDir(log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dirError("read data directory", err)
	}
	if slices.ContainsFunc(list, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".wal") }) {
		return nil
	}
	gone := fmt.Sprintf(
		"move %s away: the server begins empty, and nodes of its jobs make them again out of what they have",
		member)
	if !c.single() {
		gone = fmt.Sprintf("remove this member from its cluster, move %s away, and add it again", d.path)
	}
	return problem.New(problem.DataDir, "data directory %s is not whole: its database is there, and its log (%s) "+
		"is not", d.path, log).Because("a part of it was removed, and only the log shows what the database lacks").
		Cure("put %s back; if it is gone, %s", log, gone)
}

func (d *directory) remembered() (*identity, error) {
	b, err := os.ReadFile(d.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, dirError("read data directory", err)
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil || id.Name == "" {
		return nil, problem.New(problem.DataDir, "%s is damaged", d.file()).Because("it is not what elasticd writes").
			Cure("remove it and give the --name that this member had: the data stay")
	}
	return &id, nil
}

func (d *directory) remember(id identity) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	tmp := d.file() + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return dirError("write data directory", err)
	}
	if err := os.Rename(tmp, d.file()); err != nil {
		return dirError("write data directory", err)
	}
	return nil
}

func (d *directory) file() string { return filepath.Join(d.path, "elasticd.json") }

// started reports whether etcd has data in the directory.
func (d *directory) started() bool {
	_, err := os.Stat(filepath.Join(d.path, "member"))
	return err == nil
}
