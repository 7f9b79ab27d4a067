package capture

import (
	"path/filepath"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/files"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Dir is a checkpoint directory.
type Dir struct {
	Path string
	// Exclude are directories that do not belong to it: the agent's state and logs. If FS is set,
	// they are names in FS.
	Exclude []string
	FS      dirfs.FS // the directory, if it is in no file system of this machine
	// Names are the files that make one save, as the user named them (--save-files). nil: none.
	Names []string
	// Boot identifies the machine since it was started. What workers wrote before may be torn in any way.
	Boot  string
	Queue *Queue // for the notices of a watch; nil or in use: the watch opens one of its own
}

// Open opens the directory. It makes the directory if there is none.
func (d Dir) Open() (dirfs.FS, error) {
	if d.FS != nil {
		return d.FS, nil
	}
	return dirfs.Make(d.Path)
}

// within returns the excluded directories that are below the checkpoint directory, as paths in it.
func (d Dir) within() map[string]bool {
	in := map[string]bool{}
	if d.Path == "" {
		for _, x := range d.Exclude {
			in[x] = true
		}
		return in
	}
	top, err := filepath.EvalSymlinks(d.Path)
	if err != nil {
		return in
	}
	for _, x := range d.Exclude {
		if full, err := filepath.EvalSymlinks(x); err == nil {
			x = full
		}
		rel, err := filepath.Rel(top, x)
		if err == nil && filepath.IsLocal(rel) && rel != "." {
			in[filepath.ToSlash(rel)] = true
		}
	}
	return in
}

// Queue is a queue of the kernel's notices. Watches may use it one after the other. A process that
// may be killed opens it before its connections: see [files.Queue].
type Queue = files.Queue

// NewQueue returns nil if the kernel gives no notices. Close the queue after the last watch.
func NewQueue() *Queue { return files.NewQueue() }
