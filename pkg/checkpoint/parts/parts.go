// Package parts decides which parts of a save, captured by different nodes, form one checkpoint,
// and makes the manifest of the whole. It does no I/O.
//
// Invariants: A checkpoint has one part of each member of the world. All parts are of one step, of
// one generation, and of the incarnations that the world lists. If two parts have the same path,
// the bytes are equal, except for the marks of Elastic. A part alone is never a checkpoint.
package parts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Part is one node's part of a save. It is on that node's disk, verified and durable.
type Part struct {
	Step     int64         `json:"step"`
	Sequence uint64        `json:"sequence"` // of the captures of that node in this generation
	Manifest manifest.Hash `json:"manifest"`
	Files    int           `json:"files"`
	Bytes    int64         `json:"bytes"`
	// Again says that the node captured this step twice in this generation, with different bytes.
	// It is unknown which of the two belongs to the parts of the other nodes.
	Again bool `json:"again,omitempty"`
	// Holders are other nodes that have a copy, verified and durable.
	Holders []membership.Ref `json:"holders,omitempty"`
}

// Report is the record of one member of one generation: its parts that are not committed yet,
// oldest first.
type Report struct {
	Generation schema.Generation `json:"generation"`
	Node       membership.Ref    `json:"node"`
	Closed     bool              `json:"closed,omitempty"` // no more parts come
	Parts      []Part            `json:"parts"`
}

// Validate checks the record.
func (r *Report) Validate() error {
	var p schema.Problems
	p.Generation("generation", r.Generation)
	p.Name("node", r.Node.Node)
	p.Note(r.Node.Validate())
	p.Range("parts", int64(len(r.Parts)), 0, manifest.MostParts)
	for _, x := range r.Parts {
		p.Range("files", int64(x.Files), 0, manifest.MaxFiles)
		p.Range("bytes", x.Bytes, 0, manifest.MaxBytes)
		for _, h := range x.Holders {
			p.Note(h.Validate())
		}
	}
	return p.Err()
}

// Owned is a part and the node that has it.
type Owned struct {
	Part
	Node membership.Ref
}

// Choice is what Choose found.
type Choice struct {
	Parts []Owned // of one step, in the order of the members; nil: there is no complete set
	// Lacks says what the newest part of rank 0's node waits for. It is "" if that node has no
	// part, or if Parts are found.
	Lacks string
	Step  int64 // of that part
	// Final says that no later report can complete the save.
	Final bool
}

// Choose finds the newest save of which every member has a part. members are the nodes of the world
// by rank. The captures of the first one give the order of the saves. Reports of other generations,
// other incarnations and nodes that are not members are ignored. The order of the reports does not
// matter.
func Choose(members []membership.Ref, g schema.Generation, reports []Report) Choice {
	of := make([]*Report, len(members))
	for i := range reports {
		r := &reports[i]
		at := slices.IndexFunc(members, func(m membership.Ref) bool { return m.Same(r.Node) })
		if at >= 0 && r.Generation == g {
			of[at] = r
		}
	}
	if len(of) == 0 || of[0] == nil {
		return Choice{}
	}
	mine := slices.SortedFunc(slices.Values(of[0].Parts),
		func(a, b Part) int { return cmp.Compare(b.Sequence, a.Sequence) })
	for _, p := range mine {
		if set := together(members, of, p.Step); set != nil {
			return Choice{Parts: set, Step: p.Step}
		}
	}
	if len(mine) == 0 {
		return Choice{}
	}
	return lacking(members, of, mine[0].Step)
}

// together returns the parts of one step, one of each member. It returns nil if a member has none,
// or captured the step twice.
func together(members []membership.Ref, of []*Report, step int64) []Owned {
	var set []Owned
	for i, m := range members {
		p := find(of[i], step)
		if p == nil || p.Again {
			return nil
		}
		set = append(set, Owned{*p, m})
	}
	return set
}

// find returns the part of a step in a report; nil: there is none.
func find(r *Report, step int64) *Part {
	if r == nil {
		return nil
	}
	at := slices.IndexFunc(r.Parts, func(p Part) bool { return p.Step == step })
	if at < 0 {
		return nil
	}
	return &r.Parts[at]
}

// lacking says which part of a step is missing.
func lacking(members []membership.Ref, of []*Report, step int64) Choice {
	c := Choice{Step: step, Final: true}
	for i, m := range members {
		p := find(of[i], step)
		switch {
		case p != nil && p.Again:
			c.Lacks, c.Final = fmt.Sprintf("node %s saved step %d twice with different bytes; give "+
				"each save a step of its own", m.Node, step), true
			return c
		case p != nil:
			continue
		case of[i] == nil:
			c.Lacks = cmp.Or(c.Lacks, fmt.Sprintf("node %s has saved no part yet", m.Node))
		case len(of[i].Parts) == 0:
			c.Lacks = cmp.Or(c.Lacks, fmt.Sprintf("node %s has no part of it", m.Node))
		default:
			newest := slices.MaxFunc(of[i].Parts,
				func(a, b Part) int { return cmp.Compare(a.Sequence, b.Sequence) })
			c.Lacks = cmp.Or(c.Lacks,
				fmt.Sprintf("node %s has no part of it, its newest is of step %d", m.Node, newest.Step))
		}
		c.Final = c.Final && of[i] != nil && of[i].Closed
	}
	return c
}

// Merge makes the manifest of the whole save from its parts. The first part is that of rank 0's
// node. The errors are sentences for people.
func Merge(all []*manifest.Manifest, nodes []string) (*manifest.Manifest, error) {
	lead := all[0]
	m := *lead
	m.Part, m.Of = false, ""
	m.Files, m.Directories = nil, []string{}
	files := map[string]manifest.File{}
	from := map[string]string{}
	for i, p := range all {
		switch {
		case !p.Part:
			return nil, fmt.Errorf("what node %s has is no part of a save", nodes[i])
		case p.Job != lead.Job || p.UID != lead.UID || p.Generation != lead.Generation ||
			p.WorldSize != lead.WorldSize:
			return nil, fmt.Errorf("the part of node %s is of generation %d with %d ranks, that of node %s "+
				"of generation %d with %d",
				nodes[i], p.Generation, p.WorldSize, nodes[0], lead.Generation, lead.WorldSize)
		case p.Step == nil || lead.Step == nil || *p.Step != *lead.Step:
			return nil, fmt.Errorf("the parts of node %s and of node %s are not of one step", nodes[i], nodes[0])
		case p.Samples != nil && m.Samples != nil && *p.Samples != *m.Samples:
			return nil, fmt.Errorf("node %s saved after %d samples, node %s after %d",
				nodes[i], *p.Samples, nodes[0], *m.Samples)
		}
		if m.Samples == nil {
			m.Samples = p.Samples
		}
		if m.Cursor == nil {
			m.Cursor = p.Cursor
		}
		for _, f := range p.Files {
			was, there := files[f.Path]
			if there && !IsMark(f.Path) && (was.Size != f.Size || !slices.Equal(was.Chunks, f.Chunks)) {
				return nil, fmt.Errorf("nodes %s and %s saved different bytes under the name %s",
					from[f.Path], nodes[i], f.Path)
			}
			if !there {
				files[f.Path], from[f.Path] = f, nodes[i]
			}
		}
		m.Entry = manifest.CommonPath(m.Entry, p.Entry)
		m.Directories = append(m.Directories, p.Directories...)
	}
	for _, f := range files {
		m.Files = append(m.Files, f)
	}
	slices.SortFunc(m.Files, func(a, b manifest.File) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(m.Directories)
	m.Directories = slices.Compact(m.Directories)
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("the parts do not fit together: %w", err)
	}
	return &m, nil
}

// IsMark reports whether a path is a mark of Elastic. Each node writes its own, and may write it again.
func IsMark(path string) bool { return strings.HasSuffix(path, ".elastic-commit") }
