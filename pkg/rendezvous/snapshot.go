package rendezvous

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Snapshot is a job at one revision. A partial snapshot (Whole is false) has only the world and one
// registration: an ordinary member watches nothing else.
type Snapshot struct {
	Rev      int64
	Cluster  uint64
	Whole    bool
	Job      *Job
	Wish     Wish
	Fence    schema.Generation
	World    *World
	Nodes    []membership.Node // in the order of their names
	Left     []membership.Left
	Suspects []membership.Suspicion
	Missed   map[membership.Incarnation]bool // lost nodes that were no members, and whose loss was reported
	Ready    map[string]Ready                // of the world's generation, by node
	Exits    map[string]Exit                 // likewise
	Failure  *Failure                        // likewise
	Head     checkpoint.Head
	History  []checkpoint.Head // ckpt/n, oldest first
	Held     map[string]Held   // by node
	Doing    []Activity
	Progress *Progress
	Events   []history.Event
	Unread   []membership.Unread // of nodes that are no members; they are left out
	Brought  []Brought           // before the first World: checkpoints of earlier jobs, by node
}

// Held is the inventory of a node: the record in which it lists the checkpoints that are complete on
// its disk.
type Held struct {
	Numbers []checkpoint.Number
	Rev     int64
}

// Node returns the registration of that name, or nil.
func (s *Snapshot) Node(name string) *membership.Node {
	i, ok := slices.BinarySearchFunc(s.Nodes, name,
		func(n membership.Node, name string) int { return strings.Compare(n.Node, name) })
	if !ok {
		return nil
	}
	return &s.Nodes[i]
}

// Capturer is the node that captures for the newest generation, if its uncommitted captures may
// still be committed: no newer generation was proposed, and no worker reported a loss that is not a
// number. Otherwise it is the zero Ref.
func (s *Snapshot) Capturer() membership.Ref {
	w := s.World
	if w == nil || w.Generation != s.Fence || len(w.Members) == 0 || s.Failure != nil && s.Failure.NaN {
		return membership.Ref{}
	}
	return w.Members[0]
}

// Least is the number of nodes that a World needs.
func (s *Snapshot) Least() int {
	switch {
	case s.Growing():
		return s.Wish.Until
	case s.Job.Limits.Exact:
		return s.Wish.NP
	}
	return s.Job.Limits.Min
}

// Growing reports whether an exact job keeps its size until there are enough nodes for the larger
// World that was asked for. It ends with the proposal of a World of that size.
func (s *Snapshot) Growing() bool {
	w := s.World
	return s.Job.Limits.Exact && s.Wish.Until > 0 && w != nil && w.Attempt == s.Job.Attempt &&
		w.NP < s.Wish.NP
}

// Target is the largest size of a World when so many nodes may be in one.
func (s *Snapshot) Target(present int) int {
	if s.Growing() && present < s.Wish.NP {
		return s.Wish.Until
	}
	return s.Wish.NP
}

// Holds reports whether a node is known to have the head, or parts of it, on its disk. A record of
// the node that is newer than the commit decides; otherwise the record of the commit does. A node's
// record does not list parts. If there is no checkpoint, Holds is true.
func (s *Snapshot) Holds(node string) bool {
	if s.Head.Number == 0 {
		return true
	}
	if have, ok := s.Held[node]; ok && (s.Head.Parts == nil && have.Rev > s.Head.Rev ||
		slices.Contains(have.Numbers, s.Head.Number)) {
		return slices.Contains(have.Numbers, s.Head.Number)
	}
	return s.Head.HeldBy(node)
}

// HeadIsHere reports whether a registered node has the head, or parts of it. It trusts only a
// commit, or a record of the node, since the node registered: before that, the node may have
// removed the head because a store that was set back told it to.
func (s *Snapshot) HeadIsHere() bool {
	return s.Head.Number == 0 || slices.ContainsFunc(s.Nodes, func(n membership.Node) bool {
		return s.Holds(n.Node) && max(s.Head.Rev, s.Held[n.Node].Rev) > n.Rev
	})
}

// HoldsAll reports whether a node has all of the head on its disk.
func (s *Snapshot) HoldsAll(node string) bool {
	if s.Head.Parts == nil {
		return s.Holds(node)
	}
	return slices.Contains(s.Held[node].Numbers, s.Head.Number)
}

// Read reads the whole job at one revision. A job that does not exist has Job == nil.
func Read(ctx context.Context, st store.Store, job schema.Job) (Snapshot, error) {
	r, err := st.Get(ctx, job.Prefix(), store.End(job.Prefix()))
	if err != nil {
		return Snapshot{}, fmt.Errorf("read job %s: %w", job, err)
	}
	s, err := Decode(job, r)
	s.Events = history.Of(job, r.Entries)
	return s, err
}

// ReadSecret reads the secret with which nodes prove that they belong to the job of that uid.
func ReadSecret(ctx context.Context, st store.Store, job schema.Job, uid schema.UID) ([]byte, error) {
	r, err := st.Get(ctx, job.Secret(uid), "")
	if err != nil {
		return nil, fmt.Errorf("read the secret of job %s: %w", job, err)
	}
	if r.One() == nil {
		return nil, fmt.Errorf("the secret of job %s is not there", job)
	}
	return r.One().Value, nil
}

// Decode makes a Snapshot of a read of the job's prefix, without its events. It returns
// schema.ErrNewerFormat if a newer Elastic wrote one of the records.
func Decode(job schema.Job, r store.Read) (Snapshot, error) {
	s, err := decode(job, r)
	if err != nil {
		return s, err
	}
	s.Whole = true
	if s.World != nil {
		if err := s.World.fill(job, r.Entries); err != nil {
			return s, err
		}
	}
	err = s.decodeGeneration(job, r.Entries)
	for _, u := range s.Unread { // one of no member keeps its node out, and must not stop the members
		if err == nil && s.World != nil && !u.Outside(s.World.Members, s.World.Leavers) {
			err = u.Err
		}
	}
	return s, err
}

// DecodePart makes a partial Snapshot of a read of some records of the job. It does not fill in
// members that lie in plan/: see ReadMembers.
func DecodePart(job schema.Job, r store.Read) (Snapshot, error) {
	s, err := decode(job, r)
	if err == nil && len(s.Unread) > 0 {
		err = s.Unread[0].Err
	}
	return s, err
}

// decode is DecodePart, but leaves it to the caller whether records may be unread.
func decode(job schema.Job, r store.Read) (Snapshot, error) {
	s := Snapshot{Rev: r.Rev, Cluster: r.Cluster,
		Ready: map[string]Ready{}, Exits: map[string]Exit{}, Held: map[string]Held{},
		Missed: map[membership.Incarnation]bool{}}
	at := map[string]*store.Entry{} // keys that exist once; all other keys exist once for each node
	for _, key := range []string{job.Job(), job.Wish(), job.Fence(), job.Head(), job.Progress(), job.World()} {
		at[key] = nil
	}
	missed := job.Event(MissedEvent)
	for i := range r.Entries {
		if _, single := at[r.Entries[i].Key]; single {
			at[r.Entries[i].Key] = &r.Entries[i]
		} else if inc, ok := strings.CutPrefix(r.Entries[i].Key, missed); ok {
			s.Missed[membership.Incarnation(inc)] = true
		}
	}
	if err := s.decodeJob(job, at); err != nil {
		return s, err
	}
	var err error
	nodes := membership.Decode(job, r.Entries)
	s.Nodes, s.Left, s.Suspects, s.Unread = nodes.Nodes, nodes.Left, nodes.Suspects, nodes.Unread
	slices.SortFunc(s.Nodes, func(a, b membership.Node) int { return strings.Compare(a.Node, b.Node) })
	if e := at[job.World()]; e != nil {
		if s.World, err = DecodeWorld(e); err != nil {
			return s, err
		}
	}
	if err := s.validate(); err != nil {
		return s, fmt.Errorf("job %s: %w: %w", job, schema.ErrBadRecord, err)
	}
	return s, nil
}

// decodeJob reads the records that exist once in a job, except its world. An unreadable progress
// record counts as none, because no decision depends on it.
func (s *Snapshot) decodeJob(job schema.Job, at map[string]*store.Entry) (err error) {
	if e := at[job.Job()]; e != nil {
		var j Job
		if j, err = schema.Decode[Job](e); err != nil {
			return err
		}
		j.Name, j.Rev = job, e.Rev
		s.Job = &j
	}
	if e := at[job.Wish()]; e != nil {
		if s.Wish, err = schema.Decode[Wish](e); err != nil {
			return err
		}
		s.Wish.Rev = e.Rev
	}
	if e := at[job.Fence()]; e != nil {
		var of schema.UID
		if of, s.Fence, err = schema.ParseFence(e.Value); err != nil {
			return err
		}
		if s.Job != nil && of != s.Job.UID {
			return fmt.Errorf("%s: %w: it is of job %s, and the job is %s",
				e.Key, schema.ErrBadRecord, of, s.Job.UID)
		}
	}
	if e := at[job.Head()]; e != nil {
		if s.Head, err = schema.Decode[checkpoint.Head](e); err != nil {
			return err
		}
		s.Head.Rev = e.Rev
	}
	if e := at[job.Progress()]; e != nil {
		if p, err := schema.Decode[Progress](e); err == nil {
			s.Progress = &p
		}
	}
	return nil
}

// decodeBrought reads which checkpoint of an earlier job a node brought. A record that cannot be read
// counts as none.
func (s *Snapshot) decodeBrought(node string, e *store.Entry) {
	if b, err := schema.Decode[Brought](e); err == nil {
		b.Node = node
		s.Brought = append(s.Brought, b)
	}
}

// decodeGeneration reads the records that exist for each checkpoint, node, and generation.
func (s *Snapshot) decodeGeneration(job schema.Job, entries []store.Entry) error {
	if err := s.decodeNodes(job, entries); err != nil || s.World == nil {
		return err
	}
	return s.decodeReports(job, entries)
}

// decodeNodes reads the records of checkpoints, and those that a node writes of itself.
func (s *Snapshot) decodeNodes(job schema.Job, entries []store.Entry) error {
	checkpoints, held, doing := job.Checkpoints(), job.AllHeld(), job.AllDoing()
	for i := range entries {
		e := &entries[i]
		if p := schema.Rest(checkpoints, e.Key); len(p) == 1 {
			h, err := schema.Decode[checkpoint.Head](e)
			if err != nil {
				return err
			}
			if e.Key != job.Checkpoint(uint64(h.Number)) {
				return fmt.Errorf("%s: %w: it is of checkpoint %d", e.Key, schema.ErrBadRecord, h.Number)
			}
			h.Rev = e.Rev
			s.History = append(s.History, h)
		} else if p := schema.Rest(held, e.Key); len(p) == 1 {
			if h, err := schema.Decode[[]checkpoint.Number](e); err == nil {
				s.Held[p[0]] = Held{h, e.Rev}
			}
		} else if p := schema.Rest(doing, e.Key); len(p) == 1 {
			if d, err := schema.Decode[Activity](e); err == nil {
				d.Node, d.Rev = p[0], e.Rev
				s.Doing = append(s.Doing, d)
			}
		} else if p := schema.Rest(job.AllBrought(), e.Key); len(p) == 1 {
			s.decodeBrought(p[0], e)
		}
	}
	return nil
}

// decodeReports reads what nodes report of the newest World.
func (s *Snapshot) decodeReports(job schema.Job, entries []store.Entry) error {
	g := s.World.Generation
	readies, exits, failure := job.Readies(g), job.Exits(g), job.Failure(g)
	for i := range entries {
		e := &entries[i]
		if p := schema.Rest(readies, e.Key); len(p) == 1 {
			if r, err := schema.Decode[Ready](e); err == nil {
				r.Rev = e.Rev
				s.Ready[p[0]] = r
			} else {
				s.Unread = append(s.Unread, membership.Unread{Key: e.Key, Nodes: p, Err: err})
			}
		} else if p := schema.Rest(exits, e.Key); len(p) == 1 {
			if x, err := schema.Decode[Exit](e); err == nil {
				x.Rev = e.Rev
				s.Exits[p[0]] = x
			} else {
				s.Unread = append(s.Unread, membership.Unread{Key: e.Key, Nodes: p, Err: err})
			}
		} else if e.Key == failure {
			f, err := schema.Decode[Failure](e)
			if err != nil {
				return err
			}
			f.Rev = e.Rev
			s.Failure = &f
		}
	}
	return nil
}

// DecodeWorld reads a world record. Members that lie in plan/ are still missing: see ReadMembers.
func DecodeWorld(e *store.Entry) (*World, error) {
	w, err := schema.Decode[World](e)
	if err != nil {
		return nil, err
	}
	w.Rev = e.Rev
	return &w, nil
}

// MissedEvent is the prefix of the ids of events about lost nodes that were no members; the
// incarnation follows. The existence of the event records that the loss was reported.
const MissedEvent = "missed-"

// DescribeHead says from which step and generation a checkpoint is.
func DescribeHead(h *checkpoint.Head) string {
	if h.Step == nil {
		return fmt.Sprintf("that of generation %d", h.Generation)
	}
	return fmt.Sprintf("step %d of generation %d", *h.Step, h.Generation)
}
