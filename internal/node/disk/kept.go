package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// The files that a node keeps of a job, in its own directory below the state directory of its host.
// uidFile has the id of the job: a job that was removed and created again has another one.
const (
	lockFile  = "lock"
	uidFile   = "uid"
	StoreDir  = "store"  // the chunk store
	WorkDir   = "work"   // the checkpoint directory, if the user gave none
	HelperDir = "python" // the Python helper
	RunDir    = "run"    // files of each generation, for its workers
)

// Dirs are the directories of a node's job that its workers use.
type Dirs struct{ Work, Run, Helper string }

// DirsOf returns the Dirs of a node below the state directory of this host.
func DirsOf(stateDir, node string, job schema.Job) Dirs {
	dir := (&Disk{Dir: stateDir, job: job}).JobDir(node)
	return Dirs{filepath.Join(dir, WorkDir), filepath.Join(dir, RunDir), filepath.Join(dir, HelperDir)}
}

// Adopt assigns the directory of a node to the job. The caller holds the lock of the node. Data of
// another job with the same name is moved to the directory aside, also data of this job from before its
// living nodes made it again: of that, copies of the checkpoints stay that are committed. Data of this job
// that was moved aside before is moved back.
func (d *Disk) Adopt(
	node string, job rendezvous.Job, committed []checkpoint.Head,
) (aside string, err error) {
	dir := d.JobDir(node)
	was, err := uidOf(dir)
	if err != nil {
		return "", err
	}
	if was != "" && was != job.UID {
		if aside, err = setAside(dir, was); err != nil {
			return "", fmt.Errorf("move what is left of an earlier job %s: %w", d.job, err)
		}
		was = ""
	}
	if was, err = bringBack(dir, was, job.UID); err != nil {
		return "", fmt.Errorf("move back what is left of job %s: %w", d.job, err)
	}
	if was == job.UID {
		return aside, nil
	}
	if aside != "" {
		if err := keepCommitted(dir, aside, job, committed); err != nil {
			return "", err
		}
	}
	return aside, d.Continue(node, job)
}

// Continue makes the data of a node that of the job, which was made again while the node was in it.
func (d *Disk) Continue(node string, job rendezvous.Job) error {
	path := filepath.Join(d.JobDir(node), uidFile)
	return Publish(path+".tmp", path, []byte(string(job.UID)+"\n"))
}

// damaged stands for the id in an unreadable uidFile. No job has this id.
const damaged schema.UID = "damaged"

// uidOf reads the id of the job that a directory belongs to, "" if none. The id becomes part of a
// path, so it must be a valid name.
func uidOf(dir string) (schema.UID, error) {
	b, err := os.ReadFile(filepath.Join(dir, uidFile))
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
// '~'. It moves the id last, so a directory without an id shows an interrupted move.
func setAside(dir string, was schema.UID) (string, error) {
	names, err := entries(dir)
	if err != nil {
		return "", err
	}
	names = append(names, uidFile)
	to := dir + "~" + string(was)
	for k := 2; anyIn(to, names); k++ {
		to = fmt.Sprintf("%s~%s-%d", dir, was, k)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return "", err
	}
	return to, move(names, dir, to)
}

// aside is a directory to which data of another job was moved. Its id is the last thing that is moved.
type aside struct {
	uid schema.UID // "": a move was interrupted
	dir string
	at  time.Time
}

// asideOf lists what was moved aside from dir, the oldest first.
func asideOf(dir string) (all []aside, err error) {
	list, err := os.ReadDir(filepath.Dir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range list {
		path := filepath.Join(filepath.Dir(dir), e.Name())
		if !strings.HasPrefix(path, dir+"~") {
			continue
		}
		uid, err := uidOf(path)
		fi, statErr := e.Info()
		if err != nil || statErr != nil {
			continue
		}
		all = append(all, aside{uid, path, fi.ModTime()})
	}
	slices.SortStableFunc(all, func(a, b aside) int { return a.at.Compare(b.at) })
	return all, nil
}

// bringBack moves the data that was set aside of a job back to its directory. If was is "", it
// takes the newest such data, else the rest of an interrupted move. It moves the id first, and
// returns the id that the directory then has.
func bringBack(dir string, was, job schema.UID) (schema.UID, error) {
	list, err := asideOf(dir)
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
	names, err := entries(from)
	if err == nil {
		err = move(append([]string{uidFile}, names...), from, dir)
	}
	_ = os.Remove(from) // fails if some names were not moved, because dir had them
	return id, err
}

// entries are the names in the directory of a job, without its lock and its id.
func entries(dir string) (names []string, err error) {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if e.Name() != lockFile && e.Name() != uidFile {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// move moves the names that exist in from and not in to.
func move(names []string, from, to string) error {
	for _, name := range names {
		if anyIn(to, []string{name}) || !anyIn(from, []string{name}) {
			continue
		}
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	if err := syncDir(to); err != nil {
		return err
	}
	return syncDir(from)
}

// anyIn reports whether a directory has one of the names.
func anyIn(dir string, names []string) bool {
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Kept is what one node of this host keeps of a job.
type Kept struct {
	Node   string
	UID    schema.UID // "": the node was never in the job
	Dir    string
	Aside  bool // it was moved aside
	Server string
	Time   time.Time       // when the node last wrote what it knows of the job
	Newest checkpoint.Head // the newest commit that it knows; number 0: none
	// the largest generation that it saw
	Generation schema.Generation
	Job        *rendezvous.Job // nil: not known
}

// KeptOf lists what the nodes of this host keep of the jobs of that name, by node; what was moved aside
// follows, the oldest first. state is <state>/<host>.
func KeptOf(state string, job schema.Job) ([]Kept, error) {
	nodes, err := os.ReadDir(filepath.Join(state, "nodes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the nodes of this host: %w", err)
	}
	var all []Kept
	for _, n := range nodes {
		dir := (&Disk{Dir: state, job: job}).JobDir(n.Name())
		dirs, err := asideOf(dir)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(dir); err == nil {
			dirs = append([]aside{{dir: dir}}, dirs...)
		}
		for _, x := range dirs {
			k := Kept{Node: n.Name(), Dir: x.dir, Aside: x.dir != dir}
			if k.UID, err = uidOf(x.dir); err != nil {
				return nil, fmt.Errorf("read the job of node %s: %w", k.Node, err)
			}
			k.recall(job)
			all = append(all, k)
		}
	}
	return all, nil
}

// recall adds what the node wrote down of the job. What cannot be read is not shown.
func (k *Kept) recall(job schema.Job) {
	r, err := readMemory(k.Dir)
	m, bad := (&Disk{job: job}).recall(k.Dir)
	if r == nil || m == nil || err != nil || bad != nil {
		return
	}
	k.Server, k.Newest, k.Job, k.Generation = r.Server, m.Known, &m.Job, m.Generation
	if fi, err := os.Stat(filepath.Join(k.Dir, memoryFile)); err == nil {
		k.Time = fi.ModTime()
	}
}

// OpenStore opens the checkpoints of the node for reading. It fails with fs.ErrNotExist without
// any.
func (k Kept) OpenStore() (*readonly.Store, error) {
	return readonly.Open(filepath.Join(k.Dir, StoreDir))
}

// Part says how much of a job's directory is removed.
type Part int

const (
	Everything Part = iota
	AllButCheckpoints
)

// Size is how many bytes Remove would delete.
func (k Kept) Size(part Part) (bytes int64) {
	list, err := os.ReadDir(k.Dir)
	if err != nil {
		return 0 // it is gone
	}
	for _, e := range list {
		if part.has(e.Name()) {
			bytes += sizeOf(filepath.Join(k.Dir, e.Name()))
		}
	}
	return bytes
}

// has reports whether Remove deletes an entry of the directory of a job.
func (p Part) has(name string) bool {
	return name != lockFile && (p == Everything || name != StoreDir && name != WorkDir && name != uidFile)
}

// Remove deletes a part of the directory, and returns its size in bytes. It fails with
// refusal.ErrLocked while the agent of the node is alive.
func (k Kept) Remove(job schema.Job, part Part) (int64, error) {
	unlock, err := lockDir(k.Dir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if now, err := uidOf(k.Dir); err != nil || now != k.UID {
		return 0, err // since it was listed, the directory has become that of another job
	}
	list, err := os.ReadDir(k.Dir)
	if err != nil {
		return 0, err
	}
	var bytes int64
	for _, e := range list {
		if !part.has(e.Name()) {
			continue
		}
		path := filepath.Join(k.Dir, e.Name())
		bytes += sizeOf(path)
		if err := os.RemoveAll(path); err != nil {
			return bytes, fmt.Errorf("remove what node %s keeps of job %s: %w", k.Node, job, err)
		}
	}
	if part != Everything {
		return bytes, nil
	}
	if err := os.Remove(filepath.Join(k.Dir, lockFile)); err != nil {
		return bytes, fmt.Errorf("remove the lock of node %s: %w", k.Node, err)
	}
	_ = os.Remove(k.Dir) // fails if an agent of another job has made a new lock in it
	return bytes, nil
}

// sizeOf returns the size of all files below path. Files that it cannot read count as 0 bytes.
func sizeOf(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
			bytes += fi.Size()
		}
		return nil
	})
	return bytes
}
