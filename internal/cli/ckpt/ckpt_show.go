package ckpt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/schema"
)

// holders lists the nodes that have the checkpoint, and marks those that are not registered.
func holders(st *overview.Checkpoint) string {
	names := append([]string{}, st.Holders...)
	for _, n := range st.Away {
		names = append(names, n+" (away)")
	}
	if len(names) == 0 {
		return "-"
	}
	return phrase.List(names)
}

// copies returns the number of copies at the commit, and of how many parts.
func copies(st *overview.Checkpoint) string {
	if st.Parts > 0 {
		return fmt.Sprintf("%dx%d", st.Copies, st.Parts)
	}
	return fmt.Sprint(st.Copies)
}

func (k *saves) list(context.Context) error {
	all := []overview.Checkpoint{}
	rows := [][]string{{"NUMBER", "STEP", "GEN", "WORLD", "SIZE", "COPIES", "TIME", "", "HOLDERS"}}
	for _, h := range k.snap.History {
		st := overview.CheckpointOf(&k.snap, h)
		all = append(all, st)
		mark := ""
		if st.Head {
			mark = "head"
		}
		rows = append(rows, []string{fmt.Sprint(st.Number), screen.Known(st.Step), fmt.Sprint(st.Generation),
			screen.Known(st.WorldSize), screen.Size(st.Bytes), copies(&st), k.Out.Since(h.Time),
			mark, holders(&st)})
	}
	if k.Out.Json {
		return k.Out.Object(all)
	}
	if err := k.Out.Table(rows); err != nil {
		return err
	}
	return k.listAside()
}

// listAside prints what nodes of this machine have of other jobs of that name.
func (k *saves) listAside() error {
	kept, err := target.KeptOf(k.Call, k.snap.Job.Name)
	for _, x := range kept {
		if x.Aside && x.Newest.Number > 0 {
			k.Out.Say("moved aside: checkpoint %d%s of node %s, server %s, in %s; to go on from it: elastic stop %s, "+
				"elastic recover %[6]s --run=%[7]s", x.Newest.Number, atStep(x.Newest.Step), x.Node, x.Server, x.Dir,
				k.snap.Job.Name, x.UID)
		}
	}
	return err
}

// savedFile is one file of a checkpoint, for scripts.
type savedFile struct {
	Path   string            `json:"path"`
	Size   int64             `json:"size"`
	Mode   string            `json:"mode"`
	SHA256 *checkpoint.Hash  `json:"sha256"` // null above one chunk
	Chunks []checkpoint.Hash `json:"chunks"`
}

func (k *saves) show(ctx context.Context) error {
	h, err := k.wanted()
	if err != nil {
		return err
	}
	m, err := k.manifest(ctx, h)
	if err != nil {
		return err
	}
	st, files := overview.CheckpointOf(&k.snap, h), []savedFile{}
	st.WorldSize = &m.WorldSize
	rows := [][]string{{"FILE", "BYTES", "MODE", "SHA-256"}}
	for _, f := range m.Files {
		out := savedFile{Path: f.Path, Size: f.Size, Mode: fmt.Sprintf("%04o", f.Mode),
			Chunks: append([]checkpoint.Hash{}, f.Chunks...)}
		hash := fmt.Sprintf("of %d chunks", len(f.Chunks))
		if sum, ok := f.FileHash(); ok {
			out.SHA256, hash = &sum, sum.String()
		}
		files = append(files, out)
		rows = append(rows, []string{f.Path, fmt.Sprint(f.Size), out.Mode, hash})
	}
	if k.Out.Json {
		return k.Out.Object(struct {
			Job schema.Job `json:"job"`
			overview.Checkpoint
			Entry  string             `json:"entry"`
			Cursor *checkpoint.Cursor `json:"cursor"` // null: the script reported none
			Files  []savedFile        `json:"files"`
		}{k.snap.Job.Name, st, m.Entry, m.Cursor, files})
	}
	if !k.Out.Quiet {
		if err := k.showHead(st, m); err != nil {
			return err
		}
	}
	return k.Out.Table(rows)
}

func (k *saves) showHead(st overview.Checkpoint, m *checkpoint.Manifest) error {
	what := []string{fmt.Sprintf("checkpoint %d", st.Number)}
	if st.Head {
		what = append(what, "the newest")
	}
	if st.Step != nil {
		what = append(what, fmt.Sprintf("step %d", *st.Step))
	}
	if st.Samples != nil {
		what = append(what, fmt.Sprintf("%d samples", *st.Samples))
	}
	if m.Cursor != nil {
		what = append(what, m.Cursor.String())
	}
	entry := m.Entry
	if entry == "" {
		entry = "."
	}
	if err := k.Out.Folded(2, "%s  %s", k.snap.Job.Name, strings.Join(what, ", ")); err != nil {
		return err
	}
	for _, row := range [][2]string{
		{"made by", fmt.Sprintf("generation %d, world size %d, %s", st.Generation, m.WorldSize,
			k.Out.Since(st.Time.Time))},
		{"bytes", fmt.Sprintf("%s in %s", screen.Size(st.Bytes), phrase.Count(len(m.Files), "file"))},
		{"holders", fmt.Sprintf("%s; at its commit %s", holders(&st), phrase.Count(st.Copies, "copy"))},
		{"resume from", entry}, {"manifest", st.Manifest.String()},
	} {
		if err := k.Out.Line("  %-11s %s", row[0], row[1]); err != nil {
			return err
		}
	}
	return nil
}

// manifest reads the manifest of a checkpoint from the first source that has it.
func (k *saves) manifest(ctx context.Context, h checkpoint.Head) (*checkpoint.Manifest, error) {
	from, done, err := k.sources(ctx, h)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := transfer.FindManifest(ctx, h.Manifest, from)
	return m, k.reading(h, err)
}

// reading converts an error of reading h to an error for the user: the checkpoint is damaged, or no
// node has all of it.
func (k *saves) reading(h checkpoint.Head, err error) error {
	switch {
	case errors.Is(err, checkpoint.ErrDamaged):
		return problem.New(problem.CkptBad, "checkpoint %d of job %s is damaged wherever it can be read",
			h.Number, k.snap.Job.Name).Of(err).
			Because("%s", oneLine(err)).
			Cure("elastic ckpt verify on each machine tells where; an older one: elastic ckpt ls")
	case errors.Is(err, checkpoint.ErrNotHeld):
		return k.unreadable(h, err)
	}
	return err
}
