package capture

import (
	"maps"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// passes are how often a name was closed after writing, or given, and when.
type passes struct {
	times       int
	first, last uint64 // in the order of all
}

// and adds passes that came later.
func (p passes) and(later passes) passes {
	if p.times == 0 {
		return later
	}
	return passes{p.times + later.times, p.first, later.last}
}

// doings are what was done to names since it was told last.
type doings struct {
	passes  map[string]passes // by name
	order   uint64            // of the newest of them
	renamed map[string]bool   // by name: whether the last thing that was done is that it was given
}

func newDoings() doings { return doings{passes: map[string]passes{}, renamed: map[string]bool{}} }

func (d *doings) note(name string, did dirfs.Did) {
	if did == dirfs.Wrote {
		d.renamed[name] = false
		return
	}
	if did == dirfs.Named {
		d.renamed[name] = true
	}
	d.order++
	d.passes[name] = d.passes[name].and(passes{1, d.order, d.order})
}

// tell passes all of it on.
func (d *doings) tell(v *evidence) {
	v.settled, v.told = v.told, d.order
	for name, k := range d.passes {
		v.passes[name] = v.passes[name].and(k)
	}
	maps.Copy(v.renamed, d.renamed)
	d.passes, d.renamed = map[string]passes{}, map[string]bool{}
}

// noter has the notes of a tree that keeps them itself.
type noter struct {
	tree dirfs.Noter // nil: the tree keeps none
	read int
	done doings
}

// noterOf begins with what is done in t from now on.
func noterOf(t dirfs.Reader) *noter {
	n := &noter{done: newDoings()}
	if tree, ok := t.(dirfs.Noter); ok {
		n.tree, n.read = tree, len(tree.Notes(0))
	}
	return n
}

func (n *noter) take(v *evidence) {
	if n.tree == nil {
		return
	}
	for _, x := range n.tree.Notes(n.read) {
		n.done.note(x.Name, x.Did)
		n.read++
	}
	n.done.tell(v)
}
