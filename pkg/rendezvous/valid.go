package rendezvous

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// Every number, name and reference of a record is checked against these bounds when it is read. The
// bounds are far beyond any real job. They keep a damaged or hostile record from being used as a
// size, an index, a path or an endless loop.
const (
	maxCount   = 1 << 31 // of numbers that are only shown: attempts, restarts, milliseconds of a port
	maxSeconds = 10 * 365 * 24 * 3600
)

var (
	phases = []Phase{Forming, Running, Finishing, Waiting, Done, Failed, Stopped}
	loads  = []checkpoint.Load{"", checkpoint.LoadAll, checkpoint.LoadRank0, checkpoint.LoadOwn}
)

func checkSeconds(p *schema.Problems, what string, s Seconds) {
	p.Check(s >= 0 && float64(s) <= maxSeconds*1e9, "%s is %v", what, float64(s)/1e9)
}

// Validate checks the record of a job.
func (j *Job) Validate() error {
	var p schema.Problems
	p.Name("uid", string(j.UID))
	p.Range("attempt", int64(j.Attempt), 0, maxCount)
	p.Range("slots", int64(j.Slots), 0, membership.MaxSlots)
	p.Range("min", int64(j.Limits.Min), 0, int64(j.Limits.Max))
	p.Range("max", int64(j.Limits.Max), 0, scaling.MaxWorld)
	p.Optional("first_uid", string(j.FirstUID))
	p.Range("remade", int64(j.Remade), 0, maxCount)
	p.Note(j.Rules.validate())
	if b := j.Base; b.Nodes != 0 || b.Slots != 0 || b.Batch != 0 || b.LR != 0 {
		p.Note(b.Validate())
	}
	if j.Roles != nil {
		p.Note(j.Roles.Validate())
	}
	return p.Err()
}

func (r *Rules) validate() error {
	var p schema.Problems
	p.Range("max_restarts", int64(r.MaxRestarts), 0, maxCount)
	p.Range("replicas", int64(r.Replicas), 0, scaling.MaxWorld)
	p.Range("keep", int64(r.Keep), 0, maxCount)
	p.Check(slices.Contains(loads, r.Load), "load is %.80q", r.Load)
	savers := []checkpoint.SaveFrom{"", checkpoint.SaveFromRank0, checkpoint.SaveFromAll}
	p.Check(slices.Contains(savers, r.SaveFrom), "save_from is %.80q", r.SaveFrom)
	if err := r.SaveFiles.Check(); err != nil {
		p.Note(fmt.Errorf("save_files: %w", err))
	}
	checkSeconds(&p, "last_call", r.LastCall)
	checkSeconds(&p, "grace", r.Grace)
	return p.Err()
}

// Validate checks the record of a wish.
func (w *Wish) Validate() error {
	var p schema.Problems
	p.Range("np", int64(w.NP), 0, scaling.MaxWorld)
	p.Range("until", int64(w.Until), 0, scaling.MaxWorld)
	p.Range("stop", int64(w.Stop), 0, maxCount)
	p.Generation("restart", w.Restart)
	for _, n := range w.Drain {
		p.Name("drain", n)
	}
	checkSeconds(&p, "grace", w.Grace)
	p.Text("request", w.Request)
	p.Text("by", w.By)
	return p.Err()
}

// Validate checks the record of a World, except members that lie outside of it.
func (w *World) Validate() error {
	var p schema.Problems
	p.Name("uid", string(w.UID))
	p.Generation("generation", w.Generation)
	p.Check(w.Generation > 0 || w.Phase.Ended(), "generation is 0") // stopped before its first World
	p.Range("attempt", int64(w.Attempt), 0, maxCount)
	p.Check(slices.Contains(phases, w.Phase), "phase is %.80q", w.Phase)
	p.Check(w.Phase != Waiting || w.Hold != nil, "it waits and does not say why")
	p.Check(!w.Phase.Ended() || w.Outcome != nil, "it has ended and does not say how")
	p.Check(schema.ValidName(w.Proposal) || w.Generation == 0 && w.Proposal == "",
		"proposal %.80q is not a name", w.Proposal)
	p.Range("count", int64(w.Count), 0, scaling.MaxWorld)
	p.Range("slots", int64(w.Slots), 0, membership.MaxSlots)
	p.Range("leaving", int64(w.Leaving), 0, scaling.MaxWorld)
	p.Range("chunks", int64(w.Chunks), 0, int64(w.Count+w.Leaving))
	p.Range("np", int64(w.NP), 0, scaling.MaxWorld)
	p.Range("previous", int64(w.Previous), 0, maxCount)
	p.Check(w.Chunks > 0 || len(w.Members) == w.Count, "%d members, and count is %d", len(w.Members), w.Count)
	p.Check(w.Chunks == 0 || len(w.Members)+len(w.Leavers) == 0, "members inside and outside of it")
	p.Check(w.Chunks > 0 || w.Leaving == 0, "leavers outside of it, and no list there")
	p.Note(validRefs("member", w.Members))
	p.Note(validRefs("", w.Leavers))
	p.Text("cause_text", w.CauseText)
	p.Text("unsaved", w.Unsaved)
	for _, c := range w.Changes {
		p.Range("changed rank", int64(c.Rank), 0, int64(w.Count)-1)
		p.Note(c.Member.ValidateMember())
	}
	p.Check(w.LRScale >= 0 && w.LRScale < maxCount, "lr_scale is %v", w.LRScale)
	for _, q := range w.Quarantine {
		p.Name("quarantine", q.Node)
		p.Generation("until", q.Until)
		p.Range("times", int64(q.Times), 0, maxCount)
	}
	p.Check(w.Ranks == nil || len(w.Ranks) == w.Count, "ranks of %d nodes, and count is %d",
		len(w.Ranks), w.Count)
	for _, ranks := range w.Ranks {
		p.Range("workers", int64(len(ranks)), 0, int64(w.Slots))
		for _, r := range ranks {
			p.Range("rank", int64(r), 0, scaling.MaxWorld-1)
		}
	}
	p.Note(w.validParts())
	return p.Err()
}

func (w *World) validParts() error {
	var p schema.Problems
	if h := w.Hold; h != nil {
		p.Text("hold", h.Text)
		p.Range("present", int64(h.Present), 0, scaling.MaxWorld)
		checkSeconds(&p, "grace", h.Grace)
		checkSeconds(&p, "backoff", h.Backoff)
	}
	if m := w.Master; m != nil {
		p.Address("master", m.Host)
		p.Range("port", int64(m.Port), 0, math.MaxUint16)
		p.Range("store", int64(m.Store), 0, math.MaxUint16)
	}
	if r := w.Resume; r != nil {
		p.Check(r.Number >= 1 && r.Number <= checkpoint.MaxNumber, "resume is %d", r.Number)
		for _, n := range r.Holders {
			p.Name("holder", n)
		}
	}
	if o := w.Outcome; o != nil {
		p.Range("code", int64(o.Code), 0, 255)
		p.Text("message", o.Message)
	}
	if b := w.Plan; b != nil && b.GlobalBatch > 0 {
		p.Check(len(b.BatchSizes) == w.Size(), "%d batch sizes for %d workers", len(b.BatchSizes), w.Size())
		p.Range("grad_accum_steps", int64(b.GradAccum), 1, scaling.MaxBatch)
	}
	p.Note(w.Ledger.validate())
	return p.Err()
}

func (l *Ledger) validate() error {
	var p schema.Problems
	p.Range("used", int64(l.Used), 0, maxCount)
	p.Range("idle", int64(l.NoProgress), 0, maxCount)
	p.Range("lost", int64(l.Lost), 0, maxCount)
	p.Range("ran", int64(l.Ran), 0, maxCount)
	p.Generation("charged", l.Charged)
	p.Generation("closed", l.Closed)
	for _, r := range l.Nodes {
		p.Name("ledger", r.Node)
		p.Range("losses", int64(r.Losses), 0, maxCount)
		p.Range("failures", int64(r.Failures), 0, maxCount)
		checkSeconds(&p, "quarantine", r.Quarantine)
	}
	return p.Err()
}

// validRefs checks each reference. If it has a name for them, it also checks that no node occurs
// twice.
func validRefs(what string, refs []membership.Ref) error {
	var p schema.Problems
	seen := make(map[string]bool, len(refs))
	for _, r := range refs {
		p.Note(r.ValidateMember())
		p.Check(what == "" || !seen[r.Node], "%s %s is there twice", what, r.Node)
		seen[r.Node] = true
	}
	return p.Err()
}

// Validate checks a Ready record.
func (r *Ready) Validate() error {
	var p schema.Problems
	p.Name("incarnation", string(r.Incarnation))
	p.Address("host", r.Host)
	p.Range("ports", int64(len(r.Ports)), 0, membership.MaxSlots+2)
	for _, port := range r.Ports {
		p.Range("port", int64(port), 0, math.MaxUint16)
	}
	p.Range("stop_ms", r.StopMS, 0, 1<<53)
	return p.Err()
}

// Validate checks how the workers of a member ended.
func (e *Exit) Validate() error {
	var p schema.Problems
	p.Name("incarnation", string(e.Incarnation))
	p.Range("codes", int64(len(e.Codes)), 0, membership.MaxSlots)
	return p.Err()
}

// Validate checks a failure.
func (f *Failure) Validate() error {
	var p schema.Problems
	p.Name("node", f.Node)
	p.Optional("incarnation", string(f.Incarnation))
	p.Range("rank", int64(f.Rank), 0, maxCount)
	p.Range("local_rank", int64(f.LocalRank), 0, membership.MaxSlots)
	p.Range("code", int64(f.Code), 0, 255)
	p.Text("signal", f.Signal)
	p.Text("message", f.Message)
	p.Text("process", f.Process.Name)
	p.Check(!strings.ContainsRune(f.Process.Log, '/'), "log %.80q is not a file name", f.Process.Log)
	return p.Err()
}

// Validate checks what a node remembers of a job.
func (m *Memory) Validate() error {
	var p schema.Problems
	p.Note(m.Job.Validate())
	p.Generation("generation", m.Generation)
	if m.Known.Number > 0 {
		p.Note(m.Known.Validate())
	}
	return p.Err()
}

// validate checks records that refer to each other or to their keys.
func (s *Snapshot) validate() error {
	var p schema.Problems
	p.Check(s.World == nil || s.Job != nil, "there is a world and no job")
	if j := s.Job; j != nil {
		p.Check(j.Attempt > 0 && j.Slots > 0, "the job is of attempt %d, with %d workers a node",
			j.Attempt, j.Slots)
		p.Check(s.Wish.Rev == 0 || s.Wish.NP > 0, "np of the wish is %d", s.Wish.NP)
	}
	if w := s.World; w != nil && w.Generation > 0 {
		p.Check(w.Attempt > 0 && w.Slots > 0 && w.NP > 0,
			"the world is of attempt %d, np %d, with %d workers a node", w.Attempt, w.NP, w.Slots)
	}
	p.Check(s.World == nil || s.World.Generation <= s.Fence, "the world is of a generation above the fence")
	for i, n := range s.Nodes {
		p.Check(i == 0 || s.Nodes[i-1].Node != n.Node, "node %s is registered twice", n.Node)
	}
	return p.Err()
}
