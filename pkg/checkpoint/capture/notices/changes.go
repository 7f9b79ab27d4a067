package notices

import (
	"path"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Passes says how often a name was completed, and when. A pass is a close after writing, or a
// rename to the name.
type Passes struct {
	Times       int
	First, Last uint64 // positions in the order of all passes
	// Bare says that the last pass closed the file without a noticed write, perhaps after writes
	// through a memory map. It counts if the writer closed the file. It does not count if the
	// writer was killed.
	Bare  bool
	Prior uint64 // the pass before Last
}

// WithoutBare returns the passes without the last one if that is bare.
func (p Passes) WithoutBare() Passes {
	switch {
	case !p.Bare:
		return p
	case p.Times == 1:
		return Passes{}
	}
	return Passes{Times: p.Times - 1, First: min(p.First, p.Prior), Last: p.Prior}
}

// And adds passes that came later.
func (p Passes) And(later Passes) Passes {
	if p.Times == 0 {
		return later
	}
	prior := later.Prior
	if later.Times == 1 {
		prior = p.Last
	}
	return Passes{p.Times + later.Times, p.First, later.Last, later.Bare, prior}
}

// Or adds passes of another name.
func (p Passes) Or(o Passes) Passes {
	switch {
	case p.Times == 0:
		return o
	case o.Times == 0:
		return p
	}
	return Passes{p.Times + o.Times, min(p.First, o.First), max(p.Last, o.Last),
		p.Last > o.Last && p.Bare || p.Last < o.Last && o.Bare, max(p.Prior, o.Prior)}
}

// Changes are the changes of names since the last Take.
type Changes struct {
	Passes  map[string]Passes // by name
	Renamed map[string]bool   // by name: whether the last change gave the name by a rename
	Written map[string]bool   // by name: whether it was written since it was closed last
	Newest  uint64            // the newest pass, also before the last Take
	Lost    bool              // some changes are not known

	open     map[string]bool // names that were written and not closed, also before the last Take
	Together bool            // two names were written at the same time
}

func noChanges() Changes {
	return Changes{Passes: map[string]Passes{}, Renamed: map[string]bool{}, Written: map[string]bool{},
		open: map[string]bool{}}
}

// note adds one change.
func (c *Changes) note(name string, did dirfs.Did) {
	if did == dirfs.Wrote {
		c.Renamed[name], c.Written[name] = false, true
		delete(c.open, path.Dir(name)) // a directory
		c.open[name] = true
		c.Together = c.Together || len(c.open) > 1
		return
	}
	delete(c.open, name)
	if did == dirfs.Named {
		c.Renamed[name] = true
	}
	c.Newest++
	bare := did == dirfs.Closed && !c.Written[name]
	c.Passes[name] = c.Passes[name].And(Passes{1, c.Newest, c.Newest, bare, 0})
	c.Written[name] = false
}

// take returns the changes, and forgets them.
func (c *Changes) take() *Changes {
	taken := *c
	*c = noChanges()
	c.Newest, c.open = taken.Newest, taken.open
	return &taken
}

// Log has the changes of a directory tree that keeps a log of them itself.
type Log struct {
	tree    dirfs.Noter // nil: the tree keeps none
	read    int
	changes Changes
}

// LogOf returns the log of t from now on.
func LogOf(t dirfs.Reader) *Log {
	l := &Log{changes: noChanges()}
	if tree, ok := t.(dirfs.Noter); ok {
		l.tree, l.read = tree, len(tree.Notes(0))
	}
	return l
}

// Take returns the changes since the last Take; nil if the tree keeps no log.
func (l *Log) Take() *Changes {
	if l.tree == nil {
		return nil
	}
	for _, x := range l.tree.Notes(l.read) {
		l.changes.note(x.Name, x.Did)
		l.read++
	}
	return l.changes.take()
}
