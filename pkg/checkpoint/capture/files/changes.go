package files

import (
	"path"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Passes are the newest moments at which a name was completed, in the order of all of them: the
// newest first, 0 for none. A file is completed when it is closed after writing, or renamed to its
// name.
type Passes struct {
	At    [3]uint64
	First uint64 // the oldest one
	// Bare says that the newest one is a close without a noticed write: the end of a memory map, or
	// the kernel closed the file of a process that ended.
	Bare bool
}

// Changes are what notices say about names.
type Changes struct {
	Passes  map[string]Passes
	Renamed map[string]bool // whether the last change gave the name by a rename
	Written map[string]bool // whether the name was written since it was closed last
	Shrunk  map[string]bool // by directory: whether the last change below it removed a name
	Newest  uint64          // the newest pass
	Lost    bool            // some changes are not known
}

func NewChanges() Changes {
	return Changes{Passes: map[string]Passes{}, Renamed: map[string]bool{}, Written: map[string]bool{},
		Shrunk: map[string]bool{}}
}

// note adds one change.
func (c *Changes) note(name string, did dirfs.Did) {
	if !Ignored(path.Base(name)) || path.Base(name) == Mark {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			c.Shrunk[dir] = did == dirfs.Removed
			if did == dirfs.Wrote {
				c.Renamed[dir] = false
			}
		}
	}
	switch did {
	case dirfs.Removed:
		delete(c.Renamed, name)
		delete(c.Passes, name)
		delete(c.Shrunk, name)
		return
	case dirfs.Wrote:
		c.Renamed[name], c.Written[name] = false, true
		return
	case dirfs.Named:
		c.Renamed[name] = true
		delete(c.Shrunk, name)
	}
	c.Newest++
	p := c.Passes[name]
	p.At = [3]uint64{c.Newest, p.At[0], p.At[1]}
	p.Bare = did == dirfs.Closed && !c.Written[name]
	if p.First == 0 {
		p.First = c.Newest
	}
	c.Passes[name], c.Written[name] = p, false
}

// Log is the log of changes of a directory tree that keeps one itself.
type Log struct {
	Tree dirfs.Noter // nil: the tree keeps none
	read int
}

func LogOf(t dirfs.Reader) *Log {
	l := &Log{}
	if tree, ok := t.(dirfs.Noter); ok {
		l.Tree, l.read = tree, len(tree.Notes(0))
	}
	return l
}

// Take adds the changes since the last take.
func (l *Log) Take(to *Changes) {
	if l.Tree == nil {
		return
	}
	for _, x := range l.Tree.Notes(l.read) {
		to.note(x.Name, x.Did)
		l.read++
	}
}
