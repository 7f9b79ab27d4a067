package parts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

func ref(node string) membership.Ref {
	return membership.Ref{Node: node, Incarnation: membership.Incarnation(node + "1"), Address: node + ":1"}
}

// report is of a node in generation 3, of the steps that it has, oldest first. "closed" and "twice"
// say so.
func report(node string, words ...any) Report {
	r := Report{Generation: 3, Node: ref(node)}
	for _, w := range words {
		switch w := w.(type) {
		case int:
			r.Parts = append(r.Parts, Part{Step: int64(w), Sequence: uint64(len(r.Parts) + 1),
				Manifest: manifest.Sum([]byte(fmt.Sprint(node, w)))})
		case string:
			if w == "closed" {
				r.Closed = true
			} else {
				r.Parts[len(r.Parts)-1].Again = true
			}
		case func(*Report):
			w(&r)
		}
	}
	return r
}

func TestChoose(t *testing.T) {
	older := func(r *Report) { r.Generation = 2 }
	earlier := func(r *Report) { r.Node.Incarnation = "a0" }
	for _, c := range []struct {
		name    string
		reports []Report
		step    int64 // 0: none
		lacks   string
		final   bool
	}{
		{"nothing", nil, 0, "", false},
		{"all have it", []Report{report("a", 10), report("b", 10), report("c", 10)}, 10, "", false},
		{"the newest that all have", []Report{report("a", 10, 20, 30), report("b", 10, 20),
			report("c", 10, 20, 30, 40)}, 20, "", false},
		{"a report is late", []Report{report("a", 10), report("b", 10)}, 0, "node c has saved no part yet",
			false},
		{"a report is doubled", []Report{report("a", 10), report("b", 10), report("b", 10)}, 0,
			"node c has saved no part yet", false},
		{"of another generation", []Report{report("a", 10), report("b", 10), report("c", 10, older)}, 0,
			"node c has saved no part yet", false},
		{"of an earlier incarnation", []Report{report("a", 10), report("b", 10), report("c", 10, earlier)}, 0,
			"node c has saved no part yet", false},
		{"of a node that is no member", []Report{report("a", 10), report("b", 10), report("d", 10)}, 0,
			"node c has saved no part yet", false},
		{"the steps differ", []Report{report("a", 10), report("b", 10), report("c", 20)}, 0,
			"node c has no part of it, its newest is of step 20", false},
		{"rank 0 has none", []Report{report("b", 10), report("c", 10)}, 0, "", false},
		{"saved twice", []Report{report("a", 10), report("b", 10, "twice"), report("c", 10)}, 0,
			"node b saved step 10 twice with different bytes; give each save a step of its own", true},
		{"an older one after one saved twice", []Report{report("a", 10, 20, "twice"), report("b", 10, 20),
			report("c", 10, 20)}, 10, "", false},
		{"no more parts come", []Report{report("a", 10, 20, "closed"), report("b", 10, "closed"),
			report("c", 5, "closed")}, 0, "node b has no part of it, its newest is of step 10", true},
		{"one may still come",
			[]Report{report("a", 20, "closed"), report("b", 10), report("c", 10, "closed")}, 0,
			"node b has no part of it, its newest is of step 10", false},
		{"rank 0's captures give the order",
			[]Report{report("a", 30, 10), report("b", 10, 30), report("c", 10, 30)}, 10, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := []membership.Ref{ref("a"), ref("b"), ref("c")}
			for range 5 {
				rand.Shuffle(len(c.reports),
					func(i, j int) { c.reports[i], c.reports[j] = c.reports[j], c.reports[i] })
				got := Choose(members, 3, c.reports)
				if got.Lacks != c.lacks || got.Final != c.final || (got.Parts != nil) != (c.step != 0) {
					t.Fatalf("%+v", got)
				}
				var nodes []string
				for _, p := range got.Parts {
					nodes = append(nodes, p.Node.Node)
					if p.Step != c.step ||
						p.Manifest != manifest.Sum([]byte(fmt.Sprint(p.Node.Node, c.step))) {
						t.Errorf("%+v", p)
					}
				}
				if got.Parts != nil && !slices.Equal(nodes, []string{"a", "b", "c"}) {
					t.Errorf("parts of %v", nodes)
				}
			}
		})
	}
}

// part is the part of a node of step 20, with the named files: "name=content".
func part(files ...string) *manifest.Manifest {
	step := int64(20)
	m := &manifest.Manifest{Format: manifest.Format, Job: "x", UID: "u", Generation: 3, Sequence: 7,
		WorldSize: 4, Part: true, Step: &step, Entry: "step-20",
		Directories: []string{"step-20"}}
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		m.Files = append(m.Files, manifest.File{Path: name, Size: int64(len(content)), Mode: 0o600,
			Chunks: manifest.Chunks{manifest.Sum([]byte(content))}})
	}
	return m
}

func TestMerge(t *testing.T) {
	a := part("latest=20", "step-20/.elastic-commit={}", "step-20/0=zero", "step-20/config=same")
	b := part("step-20/.elastic-commit={ }", "step-20/1=one", "step-20/config=same")
	samples := int64(640)
	b.Samples = &samples
	m, err := Merge([]*manifest.Manifest{a, b}, []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Path)
	}
	want := []string{"latest", "step-20/.elastic-commit", "step-20/0", "step-20/1", "step-20/config"}
	if d := cmp.Diff(want, names); d != "" || m.Part || m.Entry != "step-20" ||
		*m.Samples != 640 ||
		m.Sequence != 7 {
		t.Errorf("%s %+v", d, m)
	}
	if !slices.Equal(m.Files[1].Chunks, a.Files[1].Chunks) {
		t.Error("the mark is not that of rank 0's node")
	}
	other := part("step-20/1=one", "step-20/config=same")
	other.Entry = "step-20/1"
	if m, err := Merge([]*manifest.Manifest{a, other}, []string{"a", "b"}); err != nil ||
		m.Entry != "step-20" {
		t.Errorf("%v %+v", err, m)
	}
}

func TestPartsThatDoNotFit(t *testing.T) {
	change := func(f func(*manifest.Manifest)) *manifest.Manifest {
		m := part("step-20/1=one")
		f(m)
		return m
	}
	step, samples := int64(30), int64(5)
	lead := part("step-20/0=zero", "step-20/x/y=deep")
	lead.Samples = new(int64)
	for want, b := range map[string]*manifest.Manifest{
		"what node b has is no part of a save": change(
			func(m *manifest.Manifest) { m.Part = false }),
		"the part of node b is of generation 2 with 4 ranks, that of node a of generation 3 with 4": change(
			func(m *manifest.Manifest) { m.Generation = 2 }),
		"the part of node b is of generation 3 with 3 ranks, that of node a of generation 3 with 4": change(
			func(m *manifest.Manifest) { m.WorldSize = 3 }),
		"the parts of node b and of node a are not of one step": change(
			func(m *manifest.Manifest) { m.Step = &step }),
		"node b saved after 5 samples, node a after 0": change(
			func(m *manifest.Manifest) { m.Samples = &samples }),
		"nodes a and b saved different bytes under the name step-20/0":         part("step-20/0=ZERO"),
		`the parts do not fit together: "step-20/x" is a file and a directory`: part("step-20/x=file"),
	} {
		if _, err := Merge([]*manifest.Manifest{lead, b}, []string{"a", "b"}); err == nil ||
			err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
	if _, err := Merge([]*manifest.Manifest{lead, change(func(m *manifest.Manifest) { m.Step = nil })},
		[]string{"a", "b"}); err == nil {
		t.Error("a part without a step is taken")
	}
}

func TestFormats(t *testing.T) {
	metadata := map[string][]string{"step20/.metadata": Shards(
		[]byte("\x80\x04\x95__0_0.distcp\x94\x8c\x0c__1_0.distcp\x94__0_0.distcp__12_3.distcp"))}
	for _, c := range []struct{ paths, format, missing string }{
		{"model.pt optimizer.pt", "", ""},
		{"step-20/shard_0 step-20/shard_2", "", ""},
		{"step20/.metadata step20/__0_0.distcp step20/__12_3.distcp step20/__1_0.distcp",
			"torch.distributed.checkpoint", ""},
		{"step20/.metadata step20/__0_0.distcp step20/__12_3.distcp", "torch.distributed.checkpoint",
			"the shard step20/__1_0.distcp is missing, which step20/.metadata names"},
		{"step20/__0_0.distcp", "torch.distributed.checkpoint",
			"step20/__0_0.distcp is there and step20/.metadata, which lists the shards, is not"},
		{"global_step20/mp_rank_00_model_states.pt global_step20/zero_pp_rank_0_mp_rank_00_optim_states.pt " +
			"global_step20/zero_pp_rank_1_mp_rank_00_optim_states.pt latest", "DeepSpeed", ""},
		{"global_step20/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt " +
			"global_step20/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt", "DeepSpeed",
			"2 of 3 shards like global_step20/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt are there"},
		{"iter_0000020/mp_rank_00/model_optim_rng.pt iter_0000020/mp_rank_01/model_optim_rng.pt " +
			"latest_checkpointed_iteration.txt", "Megatron", ""},
		{"iter_0000020/mp_rank_00_000/m.pt iter_0000020/mp_rank_00_001/m.pt iter_0000020/mp_rank_01_001/m.pt",
			"Megatron", "3 of 4 shards like iter_0000020/mp_rank_00_000/m.pt are there"},
		{"iter_0000020/mp_rank_99999999999999999999/m.pt", "Megatron",
			"1 of 1073741824 shards like iter_0000020/mp_rank_99999999999999999999/m.pt are there"},
	} {
		paths := strings.Fields(c.paths)
		if got := Format(paths); got != c.format {
			t.Errorf("%s: format %q", c.paths, got)
		}
		if err := Missing(paths, metadata); (err == nil) != (c.missing == "") ||
			err != nil && err.Error() != c.missing {
			t.Errorf("%s: %v", c.paths, err)
		}
		if c.format == "torch.distributed.checkpoint" && Alone(paths, metadata) != (c.missing == "") {
			t.Errorf("%s: alone or not", c.paths)
		}
	}
}

// A record comes from the store of the job, where any user of the store may have written.
func TestHostileReports(t *testing.T) {
	for _, change := range []func(*Report){
		func(r *Report) { r.Node.Node = "../x" },
		func(r *Report) { r.Node.Node = "" },
		func(r *Report) { r.Generation = schema.MaxGeneration + 1 },
		func(r *Report) { r.Parts = make([]Part, manifest.MostParts+1) },
		func(r *Report) { r.Parts[0].Bytes = -1 },
		func(r *Report) { r.Parts[0].Files = manifest.MaxFiles + 1 },
	} {
		r := report("a", 10)
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&r)
		if err := r.Validate(); err == nil || errors.Is(err, schema.ErrNewerFormat) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
