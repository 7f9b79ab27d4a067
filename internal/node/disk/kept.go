package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// The files that a node keeps of a job, in its own directory below the state directory of its host.
// uidFile has the id of the job: a job that was removed and created again has another one.
const (
	hostFile       = "host"
	nodesDir       = "nodes"
	lockFile       = "lock"
	uidFile        = "uid"
	generationFile = "generation"

	StoreDir  = "store"  // the chunk store
	WorkDir   = "work"   // the checkpoint directory, if the user gave none
	HelperDir = "python" // the Python helper
	RunDir    = "run"    // files of each generation, for its workers
)

// Dirs are the directories of a node's job that its workers use.
type Dirs struct{ Work, Run, Helper string }

// DirsOf returns the Dirs of a node below the state directory of this host.
func DirsOf(stateDir, node string, job schema.Job) Dirs {
	dir := filepath.Join(stateDir, nodeDir(node, job))
	return Dirs{filepath.Join(dir, WorkDir), filepath.Join(dir, RunDir), filepath.Join(dir, HelperDir)}
}

// Adopt assigns the directory of a node to the job. The caller holds the lock of the node. Data of
// another job with the same name is moved to the directory aside, also data of this job from before its
// living nodes made it again: of that, copies of the checkpoints stay that are committed. Data of this job
// that was moved aside before is moved back.
func (d *Disk) Adopt(
	node string, job rendezvous.Job, committed []checkpoint.Head,
) (aside string, err error) {
	dir := d.dirOf(node)
	was, err := d.uidOf(dir)
	if err != nil {
		return "", err
	}
	if was != "" && was != job.UID {
		to, err := d.setAside(dir, was)
		if err != nil {
			return "", fmt.Errorf("move what is left of an earlier job %s: %w", d.job, err)
		}
		was, aside = "", filepath.Join(d.Dir, to)
	}
	if was, err = d.bringBack(dir, was, job.UID); err != nil {
		return "", fmt.Errorf("move back what is left of job %s: %w", d.job, err)
	}
	if was == job.UID {
		return aside, nil
	}
	if err := d.keepCommitted(dir, job, committed); err != nil {
		return "", err
	}
	return aside, d.Continue(node, job)
}

// Continue makes the data of a node that of the job, which was made again while the node was in it.
func (d *Disk) Continue(node string, job rendezvous.Job) error {
	return publish(d.files, path.Join(d.dirOf(node), uidFile), []byte(string(job.UID)+"\n"))
}

// damaged stands for the id in an unreadable uidFile. No job has this id.
const damaged schema.UID = "damaged"

// uidOf reads the id of the job that a directory belongs to, "" if none. The id becomes part of a
// path, so it must be a valid name.
func (d *Disk) uidOf(dir string) (schema.UID, error) {
	b, err := d.files.ReadFile(path.Join(dir, uidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	uid := strings.TrimSpace(string(b))
	if err == nil && !schema.ValidName(uid) {
		return damaged, nil
	}
	return schema.UID(uid), err
}

// setAside moves all but the lock to a directory whose name no job can have, because it contains
// '~'. It moves what the node remembers and the id last: if it is interrupted, one directory has no id, and
// the other still tells of which job it is. What stays has a second name there.
func (d *Disk) setAside(dir string, was schema.UID, stays ...string) (string, error) {
	names, err := d.entries(dir)
	if err != nil {
		return "", err
	}
	names = append(slices.DeleteFunc(names, func(n string) bool { return n == memoryFile }), memoryFile, uidFile)
	to := dir + "~" + string(was)
	for k := 2; d.anyIn(to, names); k++ {
		to = fmt.Sprintf("%s~%s-%d", dir, was, k)
	}
	if err := makeDir(d.files, to); err != nil {
		return "", err
	}
	for _, name := range stays { // move leaves it where it is
		err := d.files.Link(path.Join(dir, name), path.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return to, d.move(names, dir, to)
}

// aside is a directory to which data of another job was moved. Its id is the last thing that is moved.
type aside struct {
	uid schema.UID // "": a move was interrupted
	dir string
	at  time.Time
}

// asideOf lists what was moved aside from dir, the oldest first.
func (d *Disk) asideOf(dir string) (all []aside, err error) {
	list, err := d.files.ReadDir(path.Dir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range list {
		at := path.Join(path.Dir(dir), e.Name())
		if !strings.HasPrefix(at, dir+"~") {
			continue
		}
		uid, err := d.uidOf(at)
		fi, statErr := e.Info()
		if err != nil || statErr != nil {
			continue
		}
		all = append(all, aside{uid, at, fi.ModTime()})
	}
	slices.SortStableFunc(all, func(a, b aside) int { return a.at.Compare(b.at) })
	return all, nil
}

// bringBack moves the data that was set aside of a job back to its directory. If was is "", it
// takes the newest such data, else the rest of an interrupted move. It moves the id first, and
// returns the id that the directory then has.
func (d *Disk) bringBack(dir string, was, job schema.UID) (schema.UID, error) {
	list, err := d.asideOf(dir)
	if err != nil {
		return was, err
	}
	from, id := "", was
	for _, x := range list {
		of := strings.TrimPrefix(x.dir, dir+"~")
		half := was != "" && x.uid == "" && (of == string(was) || strings.HasPrefix(of, string(was)+"-"))
		if half || was == "" && x.uid == job {
			from, id = x.dir, cmp.Or(was, x.uid)
		}
	}
	if from == "" {
		return was, nil
	}
	names, err := d.entries(from)
	if err == nil {
		err = d.move(append([]string{uidFile}, names...), from, dir)
	}
	_ = d.files.Remove(from) // fails if some names were not moved, because dir had them
	return id, err
}

// entries are the names in the directory of a job, without its lock and its id.
func (d *Disk) entries(dir string) (names []string, err error) {
	list, err := d.files.ReadDir(dir)
	for _, e := range list {
		if e.Name() != lockFile && e.Name() != uidFile {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// move moves the names that exist in from and not in to.
func (d *Disk) move(names []string, from, to string) error {
	for _, name := range names {
		if d.anyIn(to, []string{name}) || !d.anyIn(from, []string{name}) {
			continue
		}
		if err := d.files.Rename(path.Join(from, name), path.Join(to, name)); err != nil {
			return err
		}
	}
	if err := d.files.SyncDir(to); err != nil {
		return err
	}
	return d.files.SyncDir(from)
}

// anyIn reports whether a directory has one of the names.
func (d *Disk) anyIn(dir string, names []string) bool {
	for _, name := range names {
		if _, err := d.files.Stat(path.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
