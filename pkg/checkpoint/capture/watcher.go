// Package capture finds complete saves in a checkpoint directory. docs/CHECKPOINTS.md has the table
// of what counts.
//
// Each look goes the same way: notices say which names were written, closed, renamed or removed
// (notices.go, changes.go); the directory is listed as entries (look.go); what was seen of each entry
// becomes a table.Seen (seen.go); table.Decide finds the row that holds; the entry
// becomes a Picture, which the caller copies.
package capture

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/files"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/table"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// WorkerState says whether the worker processes of a generation run, and how they ended.
type WorkerState = table.WorkerState

const (
	Running = table.Running
	Exited  = table.Exited
	Failed  = table.Failed
	Killed  = table.Killed
)

// Workers are the worker processes of one generation.
type Workers struct {
	State func() WorkerState
	Share Share // which part of each save they write
}

// Share says which part of a save the workers of one node write.
type Share int

const (
	Whole     Share = iota
	Leading         // a part, with the file that the framework writes last: rank 0 is on this node
	Following       // a part without that file
)

// Watcher looks for saves of one generation in one directory. It belongs to one goroutine, which
// calls Look from time to time.
type Watcher struct {
	dir     Dir // Path is "" if the directory is in no file system
	tree    dirfs.Reader
	exclude map[string]bool
	stamp   manifest.Stamp
	workers Workers

	notices *files.Notices // nil: there are none
	changes files.Changes
	alive   uint64 // the newest pass while workers ran

	start   map[string]*entry // the entries when the watch began
	base    map[string]*entry // ... and in the last save taken
	taken   *entry            // an entry of the last save; nil: none was taken
	listed  map[string]*entry // all entries when it was found
	resumed string            // family of the one file that is the checkpoint at the start; "": it is not one
	firsts  map[string]*entry // by family: the file that was seen complete first
	marks   bool              // saves have marks: an entry without one is not complete

	last   map[string]*entry    // the entries in the last look
	sorted []*entry             // ... by name
	since  map[string]time.Time // when each entry was written last, as looks saw it
	rested map[string]uint64    // the pass after which workers ran for a second
	sound  map[dirfs.Found]files.Completeness
	moved  time.Time // when any entry was written last
	fresh  int       // how many entries are not as in base

	foreign  map[string]dirfs.FileState // what another user had put there when the watch began
	refusals refusals
	sequence uint64        // of the last save that was found
	pause    time.Duration // see Pause
	idle     time.Duration // see Rest; at least pause
}

// Stamp returns the generation whose saves the watcher looks for.
func (c *Watcher) Stamp() manifest.Stamp { return c.stamp }

// Watch begins to look for saves that workers of the stamp's generation make in dir. Call it before
// the workers start, because it treats existing files as not theirs. resume is the checkpoint that
// was restored for them, nil if there is none.
func Watch(dir Dir, stamp manifest.Stamp, workers Workers, resume *manifest.Manifest) (*Watcher, error) {
	if dir.FS != nil {
		return watch(tree{dir, dir.FS}, stamp, workers, resume)
	}
	disk, err := dirfs.Make(dir.Path)
	if err != nil {
		return nil, fmt.Errorf("watch checkpoint directory: %w", err)
	}
	n := files.New(dir.Queue)
	t := n.Of(disk)
	c, err := watch(tree{dir, t}, stamp, workers, resume)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch checkpoint directory: %w", err), t.Close(), n.Close())
	}
	c.notices = n
	return c, nil
}

// tree is a checkpoint directory that was opened for reading.
type tree struct {
	Dir
	dirfs.Reader
}

func watch(in tree, stamp manifest.Stamp, workers Workers, resume *manifest.Manifest) (*Watcher, error) {
	dir, t := in.Dir, in.Reader
	c := &Watcher{
		dir: dir, tree: t, exclude: dir.within(), stamp: stamp, workers: workers,
		pause: pauseMin, idle: pauseMin, notices: files.LogOf(t), changes: files.NewChanges(),
		firsts: map[string]*entry{}, since: map[string]time.Time{}, rested: map[string]uint64{},
		sound:    map[dirfs.Found]files.Completeness{},
		refusals: refusals{said: map[Reason]time.Time{}, of: map[string]bool{}},
	}
	found, err := look(t, c.exclude, nil)
	if err != nil {
		return nil, err
	}
	c.start, c.base, c.last = found.entries, maps.Clone(found.entries), found.entries
	c.foreign = found.foreign
	c.resume(resume)
	return c, nil
}

// resume notes what the checkpoint says about the saves of the workers that go on from it.
func (c *Watcher) resume(from *manifest.Manifest) {
	if from == nil {
		return
	}
	var in []*entry
	for name, e := range c.start {
		if from.Contains(name) {
			in = append(in, e)
			c.marks = c.marks || e.mark != nil && c.workers.Share != Following
		}
	}
	if len(in) == 1 && !in[0].dir && c.workers.Share == Whole {
		c.resumed = in[0].family()
	}
}

// Close ends the watch. Call Last before it if the workers have ended.
func (c *Watcher) Close() error { return errors.Join(c.tree.Close(), c.notices.Close()) }

const (
	pauseMin    = 200 * time.Millisecond
	pauseBusy   = 100 * time.Millisecond
	pauseMax    = 5 * time.Second
	idleShare   = 1000             // looking takes 1/1000 of the time while nothing happens
	noticeShare = 50               // 1/50 after a notice
	busyShare   = 20               // 1/20 while something is being written
	busyFor     = 10 * time.Second // how long that lasts after the last write
)

// Pause returns how long to wait at least before the next Look, even if there is a notice.
func (c *Watcher) Pause() time.Duration { return c.pause }

// Rest returns how long to wait before the next Look if there is no notice. It equals Pause if the
// kernel gives no notices, and while a save is being written.
func (c *Watcher) Rest() time.Duration { return c.idle }

// Notice returns a channel that receives at the first change since the last Look. The channel is
// closed when no more notices come. It is nil if there are none to wait for.
func (c *Watcher) Notice() <-chan struct{} {
	if c.idle == c.pause {
		return nil
	}
	return c.notices.Next()
}

// Look returns a complete save that was not taken yet, if there is one, and reports saves that are
// refused. Call Taken when the save is in the chunk store.
func (c *Watcher) Look(now time.Time) (*Picture, []Refusal, error) {
	began := time.Now()
	c.notices.Begin()
	p, refused, err := c.look(instant{now, c.workers.State()})
	cost := time.Since(began)
	c.pause = min(max(pauseMin, idleShare*cost), pauseMax)
	busy := c.fresh > 0 && now.Sub(c.moved) < busyFor
	if busy {
		c.pause = min(max(pauseBusy, busyShare*cost), pauseMax)
	}
	c.idle = c.pause
	if !busy && err == nil && c.notices.All() { // a notice reports the next change
		c.idle, c.pause = pauseMax, min(max(pauseMin, noticeShare*cost), pauseMax)
	}
	return p, refused, err
}

// Last is Look for workers that have ended: it waits for nothing. If some processes still run
// (parameter servers), it first takes a save whose files they have closed. If there is none, it
// treats all workers as killed.
func (c *Watcher) Last(now time.Time) (*Picture, []Refusal, error) {
	state := c.workers.State()
	if state == Running {
		if p, _, err := c.look(instant{now, Running}); p != nil || err != nil {
			return p, nil, err
		}
		state = Killed
	}
	return c.look(instant{now, state})
}

// Taken notes that the save is in the chunk store. Later looks compare with it.
func (c *Watcher) Taken(p *Picture) {
	c.base, c.listed, c.taken, c.fresh = p.seen, p.listed, p.entries[0], 0
	there := map[string]bool{}
	for _, e := range c.last {
		for _, name := range e.names() {
			there[name] = true
		}
	}
	c.changes.Keep(there)
}

// follow opens the directory that is at the path now. Scripts may remove their directory and make
// it again. The open one would be the removed one.
func (c *Watcher) follow() error {
	if c.dir.Path == "" {
		return nil
	}
	now, err := os.Stat(c.dir.Path)
	if err != nil {
		return err
	}
	was, err := c.tree.Lstat(".")
	if err == nil && os.SameFile(was, now) {
		return nil
	}
	t, err := dirfs.Open(c.dir.Path)
	if err != nil {
		return err
	}
	err = c.tree.Close()
	c.tree = c.notices.Of(t)
	return err
}

func (c *Watcher) look(at instant) (*Picture, []Refusal, error) {
	if err := c.follow(); err != nil {
		return nil, nil, err
	}
	c.notices.Take(&c.changes) // which directories were renamed
	c.changes.Begin()
	found, err := look(c.tree, c.exclude, c.changes.Born)
	if err != nil {
		return nil, nil, err
	}
	c.notices.Take(&c.changes) // of what was written while they were listed
	fresh := c.note(found.entries, at)
	if c.fresh = len(fresh); len(fresh) == 0 {
		return nil, c.refusals.say(c.strange(found.foreign), at.now), nil
	}
	for _, e := range fresh {
		if e.deep != "" {
			return nil, nil, manifest.ErrTooDeep{Path: e.deep}
		}
	}
	l := table.Look{Workers: at.workers, Names: c.dir.Names}
	for _, e := range c.sorted {
		if e.tracks {
			continue
		}
		s, err := c.see(e, at)
		if err != nil {
			return nil, nil, err
		}
		l.Entries = append(l.Entries, s)
	}
	l.Marks = c.marks
	d := table.Decide(l)
	if d.Take != nil {
		p, err := c.picture(d, at.now)
		return p, nil, err
	}
	if at.workers != Running {
		return nil, c.refuseAll(l, d), nil
	}
	return nil, c.refusals.say(d.Refuse, at.now), nil
}

// note notes when each entry was written last, and returns the fresh entries: those that were written since
// the last save.
func (c *Watcher) note(found map[string]*entry, at instant) (fresh []*entry) {
	c.changes.Lost = c.changes.Lost || c.notices.Unwatched()
	c.changes.Settle(changed(found, c.last))
	if at.workers == Running {
		c.alive = c.changes.Newest
	}
	c.sorted = nil
	for _, name := range slices.Sorted(maps.Keys(found)) {
		e, was := found[name], c.last[name]
		_, e.done, _ = c.order(e)
		e.count = c.changes.Passes[name].Count
		c.sorted = append(c.sorted, e)
		if !e.same(was) || e.done > was.done {
			c.since[name], c.moved = at.now, at.now
		}
		if c.isFresh(e) {
			fresh = append(fresh, e)
		}
		// Only rank 0 must write marks. On other nodes a restored mark does not show that their
		// workers write any.
		c.marks = c.marks || e.marked(c.start[name])
	}
	c.last = found
	maps.DeleteFunc(c.since, func(name string, _ time.Time) bool { return found[name] == nil })
	maps.DeleteFunc(c.rested, func(name string, _ uint64) bool { return found[name] == nil })
	return fresh
}

// refuseAll refuses the fresh entries when the workers have ended and no save was taken.
func (c *Watcher) refuseAll(l table.Look, d table.Decision) (refused []Refusal) {
	if d.Refuse != nil {
		return c.refusals.last(d.Refuse)
	}
	for _, s := range l.Entries {
		key := s.Name + c.last[s.Name].print()
		if !s.Fresh || s.Old || c.refusals.of[key] || !s.Dir && (l.Beside() || l.Marks) {
			continue
		}
		c.refusals.of[key] = true
		known, err := progressOf(c.tree, c.last[s.Name])
		refused = append(refused, Refusal{Reason: Torn, Path: s.Name, Step: known.Step,
			Err: errors.Join(fmt.Errorf("%w: %s", chunkstore.ErrTorn, l.Lacks(s)), err)})
	}
	return refused
}
