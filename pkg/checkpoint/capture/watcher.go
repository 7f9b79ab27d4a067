// Package capture finds complete saves in a checkpoint directory.
// docs/CHECKPOINTS.md has its rules.
package capture

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/growth"
	"github.com/elasticd/elastic/pkg/checkpoint/capture/judge"
	"github.com/elasticd/elastic/pkg/checkpoint/capture/notices"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// WorkerState says whether the worker processes of a generation run, and how they ended.
type WorkerState = judge.Workers

const (
	Running = judge.Running
	Exited  = judge.Exited // all exited with status 0
	Failed  = judge.Failed // one exited with an error, perhaps during a save
	Killed  = judge.Killed // one was killed by a signal, perhaps during a save
)

// Workers are the worker processes of one generation.
type Workers struct {
	State func() WorkerState
	// PIDs returns the processes from which all others descend. It is nil if the open files of
	// processes cannot be seen.
	PIDs func() []int
	// Share says which part of each save the workers write.
	Share Share
}

// Share says which part of a save the workers of one node write.
type Share int

const (
	Whole     Share = iota
	Leading         // a part, with the file that the framework writes last: rank 0 is on this node
	Following       // a part without that file
)

// settled is longer than the resolution of file times. A file that is written again sooner may look
// unchanged.
const settled = 50 * time.Millisecond

// Watcher looks for saves of one generation in one directory. It belongs to one goroutine, which
// calls Look from time to time.
type Watcher struct {
	dir     Dir // Path is "" if the directory is in no file system
	tree    dirfs.Reader
	exclude map[string]bool
	notices *notices.Notices // nil: the kernel gives none
	log     *notices.Log
	stamp   manifest.Stamp
	workers Workers

	base     map[string]*entry          // the entries in the last save taken, or at the start
	temps    map[string]dirfs.FileState // temporary names at that time
	in       map[string]bool            // entries of the last save, or of the checkpoint at the start
	last     *listing                   // of the last look
	since    map[string]time.Time       // when each entry changed last
	began    time.Time                  // when the first look was
	looked   time.Time                  // when the newest look was
	before   time.Time                  // when the look before it was
	moved    time.Time                  // when any entry changed last
	grew     time.Time                  // when the fresh entries became larger
	bytes    int64                      // of the fresh entries
	fresh    int                        // how many entries are not as in base
	evidence *evidence
	memory   judge.Memory
	growth   growth.Files
	still    bool                     // nothing was written for FirstQuiet before the last look
	paced    map[string]int           // by family: how many names appeared after a pause; or atOnce
	shards   map[string]bool          // families whose numbers do not count saves
	explicit bool                     // saves have marks: an entry without one is not complete
	refused  map[dirfs.FileState]bool // entries that were refused, by their state
	delay    delay                    // of the save that is not taken yet
	sequence uint64                   // of the last save that was found
	copied   bool                     // the last look found a save
	pause    time.Duration            // see Pause
	rest     time.Duration            // see Rest; at least pause
}

// Picture is a save that was found, and the state of the directory at that time.
type Picture struct {
	Save     chunkstore.Save
	seen     map[string]*entry // becomes base when the save is taken
	entries  []string          // the entries in the save
	decision judge.Decision
	passes   map[string]notices.Passes // the passes that the save uses up
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
	n := notices.New(dir.Queue)
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

func watch(
	in tree, stamp manifest.Stamp, workers Workers, resume *manifest.Manifest,
) (*Watcher, error) {
	dir, t := in.Dir, in.Reader
	c := &Watcher{
		dir: dir, tree: t, exclude: dir.within(), stamp: stamp, workers: workers, pause: pauseMin,
		rest: pauseMin,
		in:   map[string]bool{}, since: map[string]time.Time{}, shards: map[string]bool{},
		growth: growth.Files{}, paced: map[string]int{},
		refused:  map[dirfs.FileState]bool{},
		evidence: newEvidence(t), log: notices.LogOf(t),
	}
	c.evidence.share = workers.Share
	found, err := look(t, c.exclude)
	if err != nil {
		return nil, err
	}
	c.base, c.temps, c.last = found.entries, found.temps, found
	for name, e := range c.base {
		// If the workers write only a part, other nodes wrote some of the restored entries. Those
		// do not belong to the part.
		c.in[name] = workers.Share == Whole && (!e.numbered() || resume != nil && resume.Contains(name))
		c.explicit = c.explicit || e.mark != nil && workers.Share != Following
	}
	if resume != nil && workers.Share == Whole {
		c.memory.Remember(resume.Written)
		c.memory.RememberReopened(resume.Reopened)
		for name, e := range c.base {
			if e.dir && e.ordered() && resume.Contains(name) {
				c.memory.RememberShape(e.family(), e.shape())
			}
		}
	}
	return c, nil
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
func (c *Watcher) Rest() time.Duration { return c.rest }

// Notice returns a channel that receives at the first change since the last Look. The channel is
// closed when no more notices come. It is nil if there are none to wait for.
func (c *Watcher) Notice() <-chan struct{} {
	if c.rest == c.pause {
		return nil
	}
	return c.notices.Next()
}

// Look returns a complete save that was not taken yet, if there is one, and reports saves that are
// refused or delayed. Call Taken when the save is in the chunk store.
func (c *Watcher) Look(now time.Time) (*Picture, []Refusal, error) {
	began := time.Now()
	c.notices.Begin()
	p, refused, err := c.look(now, c.workers.State())
	cost := time.Since(began)
	c.pause = min(max(pauseMin, idleShare*cost), pauseMax)
	busy := c.fresh > 0 && now.Sub(c.moved) < busyFor
	if busy {
		c.pause = min(max(pauseBusy, busyShare*cost), pauseMax)
	}
	c.rest = c.pause
	if !busy && err == nil && c.notices.All() { // a notice reports the next change
		c.rest, c.pause = pauseMax, min(max(pauseMin, noticeShare*cost), pauseMax)
	}
	return p, refused, err
}

// Last is Look for workers that have ended: it waits for nothing. If some processes still run
// (parameter servers), it first takes a save whose files they have closed. If there is none, it
// treats all workers as killed.
func (c *Watcher) Last(now time.Time) (*Picture, []Refusal, error) {
	state := c.workers.State()
	if state == Running {
		if p, _, err := c.look(now, Running); p != nil || err != nil {
			return p, nil, err
		}
		state = Killed
	}
	return c.look(now, state)
}

// Taken notes that the save is in the chunk store. Later looks compare with it.
func (c *Watcher) Taken(p *Picture) {
	c.base, c.in, c.temps = p.seen, map[string]bool{}, c.last.temps
	for _, name := range p.entries {
		c.in[name] = true
	}
	c.memory.Taken(p.decision)
	c.evidence.taken(p.passes)
	c.forget()
	c.fresh, c.delay = 0, delay{reported: c.delay.reported}
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
	c.evidence.tree = c.tree
	return err
}

func (c *Watcher) look(now time.Time, state WorkerState) (*Picture, []Refusal, error) {
	if err := c.follow(); err != nil {
		return nil, nil, err
	}
	found, err := look(c.tree, c.exclude)
	if err != nil {
		return nil, nil, err
	}
	c.evidence.settled = c.evidence.newest
	c.takeNotices()
	fresh := c.note(found, now)
	c.fresh = len(fresh)
	if len(fresh) == 0 {
		c.delay = delay{reported: c.delay.reported}
		return nil, nil, nil
	}
	for _, e := range fresh {
		if e.deep != "" {
			return nil, nil, manifest.ErrTooDeep{Path: e.deep}
		}
	}
	c.evidence.scan(fresh, c.workers, state)
	c.takeNotices() // a file that the scan found closed may have been closed since the notices were taken
	return c.decide(found, fresh, now, state)
}

// note notes when each entry changed last, and returns the fresh entries: those that are not as in
// the last save.
func (c *Watcher) note(found *listing, now time.Time) (fresh []*entry) {
	c.pace(found)
	c.before, c.looked = c.looked, now
	for name, e := range found.entries {
		if !e.same(c.last.entries[name]) {
			c.since[name], c.moved = now, now
		}
		c.evidence.noteTimes(e, c.base[name])
		if e.shrunk(c.base[name]) || c.annotated(e) {
			continue // the entry is being deleted, or is of an older step
		}
		if !e.same(c.base[name]) || c.evidence.unsure[name] {
			fresh = append(fresh, e)
		}
		if c.base[name] != nil && !e.same(c.base[name]) && e.numbered() && !e.ordered() {
			c.uncount(e.family()) // a name that is written again does not count saves
		}
		// Only rank 0 must write marks. On other nodes a restored mark does not show that their
		// workers write any.
		c.explicit = c.explicit || e.mark != nil && (c.workers.Share != Following || !e.same(c.base[name]))
	}
	for name := range c.since {
		if found.entries[name] == nil {
			delete(c.since, name)
		}
	}
	if c.began.IsZero() {
		c.began = now
	}
	c.still = now.Sub(c.moved) >= judge.FirstQuiet && len(c.evidence.writers) == 0
	c.last = found
	c.noteGrowth(fresh, now)
	slices.SortFunc(fresh, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	return fresh
}

// takeNotices takes the notices that came since it was called last.
func (c *Watcher) takeNotices() {
	for _, changes := range []*notices.Changes{c.notices.Take(), c.log.Take()} {
		if changes == nil {
			continue
		}
		c.evidence.note(changes)
		if changes.Lost {
			c.memory = judge.Memory{} // the numbers of writes are unknown now
		}
		if changes.Together {
			c.memory.Together()
		}
	}
}
