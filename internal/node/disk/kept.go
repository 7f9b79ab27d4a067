package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// What a node keeps of a job, in its own directory below the state directory of its host. The job's
// id is in uidFile: a job that was removed and made again is another one.
const (
	lockFile  = "lock"
	uidFile   = "uid"
	StoreDir  = "store"
	WorkDir   = "work"
	HelperDir = "python"
	RunDir    = "run"
)

// Dirs are directories of a node's job that workers are told.
type Dirs struct{ Work, Run, Helper string }

// DirsOf are those of a node below the state directory of this host.
func DirsOf(stateDir, node string, job schema.Job) Dirs {
	dir := (&Disk{Dir: stateDir, job: job}).JobDir(node)
	return Dirs{filepath.Join(dir, WorkDir), filepath.Join(dir, RunDir), filepath.Join(dir, HelperDir)}
}

// Adopt makes the directory of a node that holds its lock the job's. What belongs to another job of
// the same name, its checkpoints and its generation too, is moved aside, and aside says where to;
// but a job that was made again because its server was lost goes on with what it had.
func (d *Disk) Adopt(node string, job rendezvous.Job) (aside string, err error) {
	dir := d.JobDir(node)
	was, err := uidOf(dir)
	if err != nil || was == job.UID {
		return "", err
	}
	if was != "" && !job.Follows(was) {
		if aside, err = setAside(dir, was); err != nil {
			return "", fmt.Errorf("move what is left of an earlier job %s: %w", d.job, err)
		}
	}
	if job.Follows(was) { // before it is the new job's for good: what is not told of then is taken for rubbish
		if err := chunkstore.KeepLate(filepath.Join(dir, StoreDir), job.Adopted); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, uidFile)
	return aside, Publish(path+".tmp", path, []byte(string(job.UID)+"\n"))
}

// damaged stands for the id of a job in a file that holds something else. No job has it.
const damaged schema.UID = "damaged"

// uidOf is the id of the job that a directory belongs to, "" before any. It becomes a part of a
// path.
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

// setAside moves all but the lock to a directory that no job can have: '~' is in no name. The id
// goes last, so that who was interrupted goes on with it.
func setAside(dir string, was schema.UID) (string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	names := []string{}
	for _, e := range list {
		if e.Name() != lockFile && e.Name() != uidFile {
			names = append(names, e.Name())
		}
	}
	names = append(names, uidFile)
	to := dir + "~" + string(was)
	for k := 2; anyIn(to, names); k++ {
		to = fmt.Sprintf("%s~%s-%d", dir, was, k)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return "", err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
			return "", err
		}
	}
	if err := syncDir(to); err != nil {
		return "", err
	}
	return to, syncDir(dir)
}

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
	Node string
	UID  schema.UID // "": it was never in the job
	Dir  string
}

// KeptOf lists what the nodes of this host keep of the jobs of that name, by node; state is
// <state>/<host>.
func KeptOf(state string, job schema.Job) ([]Kept, error) {
	nodes, err := os.ReadDir(filepath.Join(state, "nodes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the nodes of this host: %w", err)
	}
	var all []Kept
	for _, n := range nodes {
		k := Kept{Node: n.Name(), Dir: (&Disk{Dir: state, job: job}).JobDir(n.Name())}
		if _, err := os.Stat(k.Dir); err != nil {
			continue
		}
		if k.UID, err = uidOf(k.Dir); err != nil {
			return nil, fmt.Errorf("read the job of node %s: %w", k.Node, err)
		}
		all = append(all, k)
	}
	return all, nil
}

// Shelf opens its checkpoints for reading: fs.ErrNotExist where there are none.
func (k Kept) Shelf() (*chunkstore.ReadOnlyStore, error) {
	return chunkstore.OpenReadOnly(filepath.Join(k.Dir, StoreDir))
}

// Part is what is removed of the directory of a job.
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

// Remove removes a part of it, and returns how many bytes that had: refusal.ErrLocked while its agent
// lives.
func (k Kept) Remove(job schema.Job, part Part) (int64, error) {
	unlock, err := lockDir(k.Dir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if now, err := uidOf(k.Dir); err != nil || now != k.UID {
		return 0, err // another job's since it was listed
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
	_ = os.Remove(k.Dir) // not empty: an agent of another job is in it already, with a lock of its own
	return bytes, nil
}

// sizeOf is for people: what cannot be read counts nothing.
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
