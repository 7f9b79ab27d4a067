package ckpt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
)

// verified is the result of verify for one checkpoint on one node, for scripts.
type verified struct {
	Node     string             `json:"node"`
	Number   *checkpoint.Number `json:"number"` // null: it was never committed, or its record was removed
	Part     bool               `json:"part"`   // the node has only a part of the checkpoint
	Manifest checkpoint.Hash    `json:"manifest"`
	Files    int                `json:"files"`
	Bytes    int64              `json:"bytes"`
	OK       bool               `json:"ok"`
	Damage   []damage           `json:"damage"`
}

type damage struct {
	Path   *string          `json:"path"` // null: the manifest
	Offset int64            `json:"offset"`
	Chunk  *checkpoint.Hash `json:"chunk"`
}

func (d damage) String() string {
	if d.Path == nil {
		return "its manifest"
	}
	return fmt.Sprintf("%s at byte %d", *d.Path, d.Offset)
}

// verify reads every byte that the nodes of this machine keep of the job, or of one checkpoint.
func (k *saves) verify(ctx context.Context) error {
	var only *checkpoint.Head
	if k.number != 0 {
		h, err := k.wanted()
		if err != nil {
			return err
		}
		only = &h
	}
	stores, done, err := k.here()
	defer done()
	if err != nil {
		return err
	}
	all := []verified{}
	for _, s := range stores {
		held, err := s.Held()
		if err != nil {
			return fmt.Errorf("list the checkpoints of node %s: %w", s.node, err)
		}
		for _, h := range held {
			if only != nil && h != only.Manifest && !only.HasPart(h) {
				continue
			}
			v, err := k.verifyOne(ctx, s, h)
			if errors.Is(err, checkpoint.ErrNotHeld) {
				continue // its node removed it a moment ago
			}
			if err != nil {
				return fmt.Errorf("verify a checkpoint of node %s: %w", s.node, err)
			}
			all = append(all, v)
		}
	}
	if len(all) == 0 && only != nil {
		here, away := k.holdersOf(*only)
		return problem.New(problem.CkptNone, "checkpoint %d of job %s is not on this machine", only.Number,
			k.snap.Job.Name).
			Because("it is on %s", phrase.List(append(refNames(here), away...))).
			Cure("elastic ckpt verify there")
	}
	slices.SortStableFunc(all, func(a, b verified) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(b.number(), a.number()))
	})
	return k.showVerified(all)
}

// number is 0 for a save without a record.
func (v verified) number() checkpoint.Number {
	if v.Number == nil {
		return 0
	}
	return *v.Number
}

func (k *saves) verifyOne(ctx context.Context, s localStore, h checkpoint.Hash) (verified, error) {
	v := verified{Node: s.node, Manifest: h, Damage: []damage{}}
	for _, c := range k.snap.History {
		v.Part = v.Part || c.HasPart(h)
		if c.Manifest == h || v.Part && v.Number == nil {
			v.Number = &c.Number
		}
	}
	m, bad, err := s.Verify(ctx, h)
	if m != nil {
		v.Files, v.Bytes = len(m.Files), m.Bytes()
	}
	for _, d := range bad {
		if d.Path == "" {
			v.Damage = append(v.Damage, damage{})
			continue
		}
		v.Damage = append(v.Damage, damage{&d.Path, d.Offset, &d.Chunk})
	}
	v.OK = len(bad) == 0
	return v, err
}

func (k *saves) showVerified(all []verified) error {
	rows := [][]string{{"NUMBER", "NODE", "FILES", "BYTES", "STATE", ""}}
	var worst *verified
	for _, v := range all {
		row := []string{"-", v.Node, fmt.Sprint(v.Files), screen.Size(v.Bytes), "whole", ""}
		if v.Number != nil {
			row[0] = fmt.Sprint(*v.Number)
		}
		if v.Part {
			row[4] = "whole part"
		}
		if !v.OK {
			if worst == nil || v.number() > worst.number() {
				worst = &v
			}
			row[4], row[5] = "damaged", v.Damage[0].String()
			if n := len(v.Damage) - 1; n > 0 {
				row[5] += fmt.Sprintf(", and %d more", n)
			}
		}
		rows = append(rows, row)
	}
	var err error
	switch {
	case k.Out.Json:
		err = k.Out.Object(all)
	case len(all) == 0:
		k.Out.Say("no checkpoint of job %s is on this machine", k.snap.Job.Name)
	default:
		err = k.Out.Table(rows)
	}
	if err != nil || worst == nil {
		return err
	}
	name := "a save without a record (never committed, or removed since)"
	if worst.Number != nil {
		name = fmt.Sprintf("checkpoint %d", *worst.Number)
	}
	return problem.New(problem.CkptBad, "%s is damaged on node %s: %s", name, worst.Node, worst.Damage[0]).
		Cure("the agent of node %s fetches what is damaged from another holder within --verify-every (24h), "+
			"or when it needs it; elastic ckpt ls names the holders; see to the disk", worst.Node).
		Detail("node", worst.Node).Detail("number", worst.Number).Detail("damage", worst.Damage)
}
