package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/table"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// Reason is the code of an event that says why a save was not taken.
type Reason = table.Reason

const (
	Broken      = table.Broken
	Overwritten = table.Overwritten

	Torn        Reason = "torn"          // the workers ended, and nothing shows that the save is complete
	NoSpace     Reason = "no-space"      // the disk of the state directory is full
	Disk        Reason = "disk"          // the disk of the state directory failed, or is read-only
	Unreadable  Reason = "unreadable"    // the checkpoint directory, or a file in it, cannot be read
	BadPath     Reason = "bad-path"      // a manifest may not have the name of a file
	TooFewNodes Reason = "too-few-nodes" // no other node took a copy
	Fenced      Reason = "fenced"        // a newer generation exists
	MissingPart Reason = "missing-part"  // the part of a node, or a shard, is missing
	MixedParts  Reason = "mixed-parts"   // the parts of the nodes contradict each other
	Foreign     Reason = "foreign"       // another user wrote it
)

// Refusal says that a save is not taken, and why.
type Refusal struct {
	Reason Reason
	Path   string
	Step   *int64
	Err    error
}

// ErrNotYet means that saves are not taken until the user, or the script, does something.
var ErrNotYet = errors.New("no checkpoint is taken")

const (
	sayAfter   = 500 * time.Millisecond // a mark may follow the second file
	sayAgain   = time.Minute            // how often a refusal is repeated
	openLimit  = 10 * time.Second       // how long a file stays open and unchanged until that is reported
	hasteLimit = 10                     // writes again, before a file rested, until that is reported
)

// refusals remembers what was reported.
type refusals struct {
	said    map[Reason]time.Time
	several time.Time       // when several files were seen first
	of      map[string]bool // entries that were refused when the workers had ended
}

// last returns the refusal of workers that have ended, once.
func (s *refusals) last(r *table.Refused) []Refusal {
	if s.of[string(r.Reason)] {
		return nil
	}
	s.of[string(r.Reason)] = true
	return refusal(r)
}

func refusal(r *table.Refused) []Refusal {
	return []Refusal{{Reason: r.Reason, Path: r.Path, Err: fmt.Errorf("%w: %s", ErrNotYet, r.Why)}}
}

// say returns the refusal, unless one for the same reason was reported less than a minute ago.
func (s *refusals) say(r *table.Refused, now time.Time) []Refusal {
	if r == nil {
		return nil
	}
	if at, ok := s.said[r.Reason]; ok && now.Sub(at) < sayAgain {
		return nil
	}
	if r.Reason == table.SeveralFiles && s.several.IsZero() {
		s.several = now
	}
	if r.Reason == table.SeveralFiles && now.Sub(s.several) < sayAfter {
		return nil
	}
	s.said[r.Reason] = now
	return refusal(r)
}

// strange refuses what another user put into the directory since the watch began.
func (c *Watcher) strange(foreign map[string]dirfs.FileState) *table.Refused {
	for _, name := range slices.Sorted(maps.Keys(foreign)) {
		if c.foreign[name] != foreign[name] {
			return &table.Refused{Reason: Foreign, Path: name, Why: name + " belongs to another user, so no " +
				"worker wrote it: let nobody else write the checkpoint directory (chmod go-w)"}
		}
	}
	return nil
}
