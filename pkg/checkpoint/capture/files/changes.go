package files

import (
	"maps"
	"path"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Passes are the moments at which a name was completed, in the order of all of them; 0: never. A file
// is completed when it is closed after it was written, or renamed to its name.
type Passes struct {
	First, Prior, Last uint64
	Count              int
	Guessed            bool // no notice told of the newest one: the file may still be open
}

// Changes are what is known of the changes of names.
type Changes struct {
	Passes map[string]Passes
	Newest uint64 // the newest pass
	// Open are the names that were written, and not closed since. Each has the newest pass before its
	// last write.
	Open    map[string]uint64
	Renamed map[string]bool // whether the last change of the name, or of a file in it, was a rename to it
	Born    map[string]bool // names that were ever given by a rename
	Shrunk  map[string]bool // by directory: whether the last change below it removed a name
	Lost    bool            // since the last Settle some changes are not known
	// Quiet are the names that were closed or touched without a noticed write; Made are those that were made:
	// of an empty file, or of a link to a file. Each has the look in which that was noticed.
	Quiet, Made map[string]int
	Look        int    // the number of the look
	Began       uint64 // the newest pass when its listing began
	Known       uint64 // ... and when that of the look before began
}

// unnoticed is how many files a look may find written without a notice. Their passes have numbers before
// those of all notices since the look before.
const unnoticed = 1 << 24

func NewChanges() Changes {
	return Changes{Look: 1, Newest: unnoticed, Passes: map[string]Passes{}, Open: map[string]uint64{},
		Renamed: map[string]bool{},
		Born:    map[string]bool{}, Shrunk: map[string]bool{}, Quiet: map[string]int{}, Made: map[string]int{}}
}

// Note adds one change.
func (c *Changes) Note(name string, did dirfs.Did) {
	if !Ignored(path.Base(name)) || path.Base(name) == Mark {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			c.Shrunk[dir] = did == dirfs.Removed
			if did == dirfs.Wrote || did == dirfs.Made {
				c.Renamed[dir] = false
			}
		}
	}
	switch {
	case did == dirfs.Removed:
		delete(c.Renamed, name)
		delete(c.Passes, name)
		delete(c.Open, name)
		delete(c.Shrunk, name)
	case did == dirfs.Made:
		delete(c.Renamed, name)
		c.Made[name] = c.Look
	case did == dirfs.Wrote:
		c.Renamed[name], c.Open[name] = false, c.Newest
	case did == dirfs.Named:
		c.Renamed[name], c.Born[name] = true, true
		delete(c.Shrunk, name)
		c.pass(name)
	case did == dirfs.Closed && c.IsOpen(name):
		c.pass(name)
	default: // closed without a write, or its times or rights were set
		c.Quiet[name] = c.Look
	}
}

// IsOpen reports whether a name was written, and not closed since.
func (c *Changes) IsOpen(name string) bool {
	_, open := c.Open[name]
	return open
}

func (c *Changes) pass(name string) {
	c.Newest++
	c.passAt(name, c.Newest)
}

func (c *Changes) passAt(name string, at uint64) {
	delete(c.Open, name)
	p := c.Passes[name]
	p.Prior, p.Last, p.Count, p.Guessed = p.Last, at, p.Count+1, false
	if p.First == 0 {
		p.First = at
	}
	c.Passes[name] = p
}

// Changed is a file that is not as the last look found it.
type Changed struct {
	Name  string
	IsNew bool
}

// Begin begins the look, after notices were taken and before files are listed. What is noticed from
// now on may be of files as the next look finds them.
func (c *Changes) Begin() {
	c.Look++
	c.Known, c.Began = c.Began, c.Newest
	c.Newest += unnoticed
}

// Settle follows the listing, with the changed files in the order of their times. One of which no notice
// told was written through a memory map: it is complete when a close or a touch was noticed. A new one was
// written before its directory was watched, or notices are missing (c.Lost): it counts as closed, by a guess.
// So does a mark, which is renamed to its name.
func (c *Changes) Settle(changed []Changed) {
	guess := c.Known
	for _, x := range changed {
		switch {
		case c.IsOpen(x.Name) || c.Made[x.Name] >= c.Look-1 || c.Passes[x.Name].Last > c.Known:
		case c.Lost || x.IsNew || strings.HasSuffix(x.Name, Mark):
			guess++
			c.passAt(x.Name, guess)
			p := c.Passes[x.Name]
			p.Guessed = true
			c.Passes[x.Name] = p
		case c.Quiet[x.Name] >= c.Look-1 || c.moved(path.Dir(x.Name)):
			c.pass(x.Name)
		default:
			c.Open[x.Name] = c.Known
		}
	}
	c.Lost = false
	old := func(_ string, look int) bool { return look < c.Look }
	maps.DeleteFunc(c.Quiet, old)
	maps.DeleteFunc(c.Made, old)
}

// moved reports whether a directory, or one above it, was renamed to its name since the last Settle.
func (c *Changes) moved(dir string) bool {
	return dir != "." && (c.Passes[dir].Last > c.Known || c.moved(path.Dir(dir)))
}

// Lose notes that some changes are not known.
func (c *Changes) Lose() {
	c.Lost = true
	clear(c.Open)
	clear(c.Renamed)
	clear(c.Shrunk)
}

// Keep forgets names that are gone, which would otherwise collect.
func (c *Changes) Keep(there map[string]bool) {
	maps.DeleteFunc(c.Passes, func(name string, _ Passes) bool { return !there[name] })
	maps.DeleteFunc(c.Open, func(name string, _ uint64) bool { return !there[name] })
}
