package parts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// saved is a checkpoint of the parts with the named files, one part for each node, and the parts.
func saved(t *testing.T, workers int, files ...string) (*manifest.Manifest, []*manifest.Manifest) {
	t.Helper()
	var all []*manifest.Manifest
	var nodes []string
	for i, f := range files {
		names := strings.Fields(f)
		slices.Sort(names)
		p := part(names...)
		p.WorldSize, p.Entry, p.Directories = workers, "", nil
		all, nodes = append(all, p), append(nodes, fmt.Sprint("n", i))
	}
	m, err := Merge(all, nodes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		m.Parts = append(m.Parts, manifest.Sum([]byte{byte(i)}))
	}
	return m, all
}

// zero is what a rank of DeepSpeed's ZeRO-1 saves.
func zero(ranks ...int) (files string) {
	for _, r := range ranks {
		files += fmt.Sprintf(" s/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt=%d", r, r)
	}
	return files
}

func TestOwn(t *testing.T) {
	const model = "s/mp_rank_00_model_states.pt=m latest=s"
	megatron := func(dirs ...string) (files string) {
		for _, d := range dirs {
			files += fmt.Sprintf(" i/mp_rank_%s/model_optim_rng.pt=%s i/mp_rank_%s/distrib_optim.pt=o%s",
				d, d, d, d)
		}
		return files
	}
	for _, c := range []struct {
		name    string
		parts   []string
		workers int // that saved it
		reader  Reader
		need    string // "parts: files", or the reason for all
	}{
		{"ZeRO: its shard, and what all read", []string{model + zero(0), zero(1), zero(2)}, 3,
			Reader{1, 3, 3},
			"1 0: latest s/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt s/mp_rank_00_model_states.pt"},
		{"ZeRO: rank 0's node has what all read", []string{model + zero(0), zero(1), zero(2)}, 3,
			Reader{0, 3, 3},
			"0: latest s/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt s/mp_rank_00_model_states.pt"},
		{"ZeRO: two ranks a node", []string{model + zero(0, 1), zero(2, 3), zero(4, 5)}, 6, Reader{2, 3, 6},
			"2 0: latest s/bf16_zero_pp_rank_4_mp_rank_00_optim_states.pt " +
				"s/bf16_zero_pp_rank_5_mp_rank_00_optim_states.pt s/mp_rank_00_model_states.pt"},
		{"ZeRO-3: parameters are of one rank too",
			[]string{"latest=s s/zero_pp_rank_0_mp_rank_00_model_states.pt=a" + zero(0),
				"s/zero_pp_rank_1_mp_rank_00_model_states.pt=b" + zero(1),
				"s/zero_pp_rank_2_mp_rank_00_model_states.pt=c" + zero(2)}, 3,
			Reader{2, 3, 3}, "2 0: latest s/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt " +
				"s/zero_pp_rank_2_mp_rank_00_model_states.pt"},
		{"ZeRO: replicas share a shard", []string{model + zero(0), zero(1), "log=x", "log=x"}, 4,
			Reader{3, 4, 4}, "several ranks may read each file of this save of DeepSpeed"},
		{"ZeRO-3 with model parallelism: the parameters of all ranks are counted", []string{
			"s/zero_pp_rank_0_mp_rank_00_model_states.pt=a", "s/zero_pp_rank_0_mp_rank_01_model_states.pt=b",
			"s/zero_pp_rank_1_mp_rank_00_model_states.pt=c", "s/zero_pp_rank_1_mp_rank_01_model_states.pt=d"},
			4,
			Reader{1, 4, 4}, "several ranks may read each file of this save of DeepSpeed"},
		{"a file that nothing tells of is for all",
			[]string{model + zero(0), zero(1), zero(2) + " s/extra_2=e"}, 3,
			Reader{1, 3, 3}, "each part has files that this node needs, like s/extra_2"},
		{"random states of transformers",
			[]string{model + zero(0) + " rng_state_0.pth=r0", zero(1) + " rng_state_1.pth=r1",
				zero(2) + " rng_state_2.pth=r2"}, 3, Reader{1, 3, 3},
			"1 0: latest rng_state_1.pth s/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt " +
				"s/mp_rank_00_model_states.pt"},
		{"a file that two nodes saved is fetched once",
			[]string{model + zero(0), zero(1) + " config=c", zero(2) + " config=c"}, 3,
			Reader{2, 3, 3}, "2 0: config latest s/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt " +
				"s/mp_rank_00_model_states.pt"},
		{"Megatron: a directory for each rank", []string{"tracker=1" + megatron("00_000"), megatron("00_001"),
			megatron("01_000"), megatron("01_001")}, 4, Reader{2, 4, 4},
			"2 0: i/mp_rank_00_000/distrib_optim.pt i/mp_rank_00_000/model_optim_rng.pt " +
				"i/mp_rank_01_000/distrib_optim.pt " +
				"i/mp_rank_01_000/model_optim_rng.pt tracker"},
		{"Megatron: with data parallelism",
			[]string{"tracker=1" + megatron("00"), megatron("01"), "log=1", "log=1"}, 4,
			Reader{1, 4, 4}, "several ranks may read each file of this save of Megatron"},
		{"torch", []string{".metadata=m __0_0.distcp=0", "__1_0.distcp=1", "__2_0.distcp=2"}, 3,
			Reader{1, 3, 3}, "several ranks may read each file of this save of torch.distributed.checkpoint"},
		{"names that tell nothing", []string{"shard_0=0", "shard_1=1"}, 2, Reader{1, 2, 2},
			"the names of its files do not tell which rank reads which"},
		{"fewer nodes", []string{model + zero(0), zero(1), zero(2)}, 3, Reader{1, 2, 2},
			"3 workers in 3 parts saved it, and 2 workers on 2 nodes begin from it"},
		{"the workers on other nodes", []string{model + zero(0, 1), zero(2, 3)}, 4, Reader{1, 4, 4},
			"4 workers in 2 parts saved it, and 4 workers on 4 nodes begin from it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, all := saved(t, c.workers, c.parts...)
			got := ""
			need, err := Own(whole, all, c.reader)
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Trim(fmt.Sprint(need.Parts), "[]") + ": " +
					strings.Join(need.Files.Paths(), " ")
			}
			if got != c.need {
				t.Errorf("got  %s\nwant %s", got, c.need)
			}
		})
	}
}

// Whatever the files are: each node gets what it saved, each file is on a node, what a node gets is in
// the parts that it fetches, and a file that a node does not get is named after a rank.
func TestOwnLeavesOutFilesOfOneRankOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	left := 0
	for range 2000 {
		nodes := 2 + rng.IntN(4)
		parts := make([]string, nodes)
		for i := range parts {
			for _, f := range []string{
				fmt.Sprintf("s/zero_pp_rank_%d_mp_rank_00_optim_states.pt=%d", i, i),
				fmt.Sprintf("s/zero_pp_rank_%d_mp_rank_0%d_model_states.pt=%d", i/2, i%2, i),
				fmt.Sprintf("i/mp_rank_0%d/m=%d", i, i), "common=c", fmt.Sprintf("own_%d=%d", i, i),
			} {
				if rng.IntN(5) > 0 {
					parts[i] += " " + f
				}
			}
			parts[i] += fmt.Sprintf(" always_%d=x", i%2)
		}
		whole, all := saved(t, nodes, parts...)
		had := map[string]int{}
		for rank := range nodes {
			files := whole.Files
			if need, err := Own(whole, all, Reader{rank, nodes, nodes}); err == nil {
				files = need.Files.Files
				for _, f := range all[rank].Files {
					if !slices.ContainsFunc(files, func(x manifest.File) bool { return x.Path == f.Path }) {
						t.Fatalf("rank %d does not get its own %s of %q", rank, f.Path, parts)
					}
				}
				for _, f := range files {
					if !slices.ContainsFunc(need.Parts, func(p int) bool { return has(all[p], f) }) {
						t.Fatalf("rank %d gets %s from none of the parts %v of %q", rank, f.Path, need.Parts, parts)
					}
				}
			}
			for _, f := range files {
				had[f.Path]++
			}
		}
		for _, f := range whole.Files {
			switch n := had[f.Path]; {
			case n == 0:
				t.Fatalf("no node gets %s of %q", f.Path, parts)
			case n < nodes && !strings.Contains(f.Path, "_rank_"):
				t.Fatalf("%d nodes get %s of %q", n, f.Path, parts)
			case n < nodes:
				left++
			}
		}
	}
	if left < 100 {
		t.Errorf("files were left out only %d times", left)
	}
}
