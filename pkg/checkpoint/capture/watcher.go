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

// WorkerState says what became of the worker processes of a generation.
type WorkerState = judge.Workers

const (
	Running = judge.Running
	Exited  = judge.Exited // by themselves, and none failed
	Failed  = judge.Failed // by themselves, and one failed, in the middle of something perhaps
	Killed  = judge.Killed // by a signal, in the middle of something perhaps
)

// Workers are the worker processes of one generation.
type Workers struct {
	State func() WorkerState
	// PIDs are the processes from which the others descend; nil where no process's open files can be
	// seen.
	PIDs func() []int
	// Share says which part of each save they write.
	Share Share
}

// Share is what the workers of one node write of a save.
type Share int

const (
	Whole     Share = iota
	Leading         // a part, with what the framework writes last: rank 0 is among them
	Following       // a part without that
)

// settled is more than the grain of file times: a file that is written again sooner may look
// unchanged.
const settled = 50 * time.Millisecond

// Watcher looks for saves of one generation in one directory. It belongs to
// one goroutine, which calls Look now and then.
type Watcher struct {
	dir     Dir // Path is "" for one that is in no file system
	tree    dirfs.Reader
	exclude map[string]bool
	notices *notices.Notices // nil: there are none
	log     *notices.Log
	stamp   manifest.Stamp
	workers Workers

	base     map[string]*entry          // as they were in the last save taken, or at the start
	temps    map[string]dirfs.FileState // temporary names of before that
	in       map[string]bool            // entries of the last save, or of what was resumed from
	last     *listing                   // the last Look
	since    map[string]time.Time
	began    time.Time // of the first Look
	looked   time.Time // of the newest look
	before   time.Time // of the one before it
	moved    time.Time // when anything was written
	grew     time.Time // when what was written became larger
	bytes    int64     // of the fresh entries
	fresh    int       // entries that are not as in base
	evidence *evidence
	memory   judge.Memory
	growth   growth.Files
	still    bool            // nothing was written for a second before the last look
	paced    map[string]int  // by family of numbers: names that came after a pause; atOnce
	shards   map[string]bool // families whose numbers count no steps
	explicit bool            // marks are used here: what has none is not finished
	refused  map[dirfs.FileState]bool
	delay    delay
	sequence uint64
	pause    time.Duration
	rest     time.Duration // not below pause
}

// Picture is a save that was found, and the state of the directory in which it was found.
type Picture struct {
	Save     chunkstore.Save
	seen     map[string]*entry // all that was in the directory, for Taken
	entries  []string          // those of them that are in the save
	decision judge.Decision
	passes   map[string]notices.Passes // that it took
}

// Stamp says whose workers write what is looked for.
func (c *Watcher) Stamp() manifest.Stamp { return c.stamp }

// Watch begins to look for saves that workers of the stamp's generation make
// in dir. What is there already is not theirs: call it before they start.
// resume is what was put back for them, if anything.
func Watch(dir Dir, stamp manifest.Stamp, workers Workers, resume *manifest.Manifest) (*Watcher, error) {
	if dir.FS != nil {
		return watch(tree{dir, dir.FS}, stamp, workers, resume)
	}
	disk, err := dirfs.Make(dir.Path)
	if err != nil {
		return nil, fmt.Errorf("watch checkpoint directory: %w", err)
	}
	n := notices.New()
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
		// Other nodes wrote some of it: a part has only what these workers write.
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

// Close ends the watch. Last first, if the workers ended.
func (c *Watcher) Close() error { return errors.Join(c.tree.Close(), c.notices.Close()) }

const (
	pauseMin    = 200 * time.Millisecond
	pauseBusy   = 100 * time.Millisecond
	pauseMax    = 5 * time.Second
	idleShare   = 1000             // of the time goes into looking while nothing happens: 0.1 %
	noticeShare = 50               // after a notice: 2 %
	busyShare   = 20               // while something is being written: 5 %
	busyFor     = 10 * time.Second // after the last write
)

// Pause is how long to wait before the next Look when there is a notice, Rest when there is none.
func (c *Watcher) Pause() time.Duration { return c.pause }

// Rest is Pause where the kernel gives no notice, and while there is something to wait for.
func (c *Watcher) Rest() time.Duration { return c.rest }

// Notice tells of the first thing that happened since the last Look, or that one must not count on
// that.
func (c *Watcher) Notice() <-chan struct{} {
	if c.rest == c.pause {
		return nil
	}
	return c.notices.Next()
}

// Look returns a save if a complete one is there that was not taken yet, and
// what it found beyond repair. Taken follows when the save was put.
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
	if !busy && err == nil && c.notices.All() { // the next change gives notice
		c.rest, c.pause = pauseMax, min(max(pauseMin, noticeShare*cost), pauseMax)
	}
	return p, refused, err
}

// Last is Look for the time when the workers ended: there is nothing to wait for any more. Where
// some processes still run (servers), what they have closed by now counts; they are given up after
// that.
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

// Taken says that the save was put: from here on it is what changes are compared with.
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

// follow opens the directory that has the path now. Scripts clear their directory by removing it
// and making it again, and the one that is open stays the old one.
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
	for _, changes := range []*notices.Changes{c.notices.Take(), c.log.Take()} {
		if changes == nil {
			continue
		}
		c.evidence.note(changes)
		if changes.Lost {
			c.memory = judge.Memory{} // how often each file was written is not known any more
		}
		if changes.Together {
			c.memory.Together()
		}
	}
	fresh := c.note(found, now)
	c.fresh = len(fresh)
	if len(fresh) == 0 {
		c.delay = delay{reported: c.delay.reported}
		return nil, nil, nil
	}
	c.evidence.scan(fresh, c.workers, state)
	return c.decide(found, fresh, now, state)
}

// note remembers since when each entry is as it is, and returns those that are not as in the last
// save.
func (c *Watcher) note(found *listing, now time.Time) (fresh []*entry) {
	c.pace(found)
	c.before, c.looked = c.looked, now
	for name, e := range found.entries {
		if !e.same(c.last.entries[name]) {
			c.since[name], c.moved = now, now
		}
		c.evidence.noteTimes(e, c.base[name])
		if e.shrunk(c.base[name]) || c.annotated(e) {
			continue // it is being deleted, or is of an older step
		}
		if !e.same(c.base[name]) || c.evidence.unsure[name] {
			fresh = append(fresh, e)
		}
		if c.base[name] != nil && !e.same(c.base[name]) && e.numbered() && !e.ordered() {
			c.uncount(e.family()) // a name that is written again counts nothing, if its words do not say so
		}
		// Only rank 0 need write marks: those that were put back say nothing of the others.
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
