package parts

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Reader is a node of a world that begins from a checkpoint.
type Reader struct {
	Rank    int // of the node
	Nodes   int // in the world
	Workers int // in the world
}

// Need is what a node needs of a checkpoint.
type Need struct {
	Parts []int              // places among the parts of the checkpoint, that of its own rank first
	Files *manifest.Manifest // the checkpoint with the files that its ranks read and no others
}

// Own says what the node of a rank needs of a checkpoint: the part that the node of this rank saved,
// and the parts with files that all ranks may read. all are the manifests of its parts, in their
// order. The error is a sentence for people: nothing proves that the node needs less than all of it.
//
// The proof is a count. In a layout that names a file after one rank, each rank writes and reads one
// name of a family, the same one. A family with as many names as there are workers therefore has one
// name for each rank, and the file lies in the part of the node of that rank. A family with fewer
// names has files that several ranks read.
func Own(whole *manifest.Manifest, all []*manifest.Manifest, r Reader) (Need, error) {
	if whole.WorldSize != r.Workers || len(all) != r.Nodes {
		return Need{}, fmt.Errorf("%d workers in %d parts saved it, and %d workers on %d nodes begin from it",
			whole.WorldSize, len(all), r.Workers, r.Nodes)
	}
	one := ofOneRank(pathsOf(whole), r.Workers)
	if len(one) == 0 {
		if format := Format(pathsOf(whole)); format != "" {
			return Need{}, fmt.Errorf("several ranks may read each file of this save of %s", format)
		}
		return Need{}, errors.New("the names of its files do not tell which rank reads which")
	}
	view := *whole
	view.Files = nil
	need := Need{Parts: []int{r.Rank}, Files: &view}
	var shared string
	for _, f := range whole.Files {
		if one[f.Path] && !has(all[r.Rank], f) {
			continue
		}
		view.Files = append(view.Files, f)
		if slices.ContainsFunc(need.Parts, func(p int) bool { return has(all[p], f) }) {
			continue
		}
		at := slices.IndexFunc(all, func(p *manifest.Manifest) bool { return has(p, f) })
		if at < 0 {
			return Need{}, fmt.Errorf("no part of it has the file %s", f.Path)
		}
		need.Parts, shared = append(need.Parts, at), f.Path
	}
	if len(need.Parts) == r.Nodes {
		return Need{}, fmt.Errorf("each part has files that this node needs, like %s", shared)
	}
	if err := view.Check(); err != nil {
		return Need{}, fmt.Errorf("the parts of this node are no checkpoint by themselves: %w", err)
	}
	return need, nil
}

func pathsOf(m *manifest.Manifest) (paths []string) {
	for _, f := range m.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// has reports whether a part has the bytes of a file under its name.
func has(part *manifest.Manifest, f manifest.File) bool {
	at, there := slices.BinarySearchFunc(part.Files, f.Path, func(x manifest.File, path string) int {
		return strings.Compare(x.Path, path)
	})
	return there && part.Files[at].Size == f.Size && slices.Equal(part.Files[at].Chunks, f.Chunks)
}

// perRank are the names of files that one rank writes, and reads again: DeepSpeed's shards of the
// optimizer and, without model parallelism, of the parameters; the random states of transformers and
// of accelerate.
var perRank = []*regexp.Regexp{
	regexp.MustCompile(`^(?:bf16_|fp16_)?zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt$`),
	regexp.MustCompile(`^zero_pp_rank_\d+_mp_rank_00_model_states\.pt$`),
	regexp.MustCompile(`^rng_state_\d+\.pth$`),
	regexp.MustCompile(`^random_states_\d+\.pkl$`),
}

// rankZeroDir is the directory of Megatron that every rank looks into, for the arguments of the
// training.
var rankZeroDir = regexp.MustCompile(`^mp_rank_00(?:_0+)*$`)

// ofOneRank are those of the paths that exactly one of so many ranks reads.
func ofOneRank(paths []string, workers int) map[string]bool {
	names := map[string]map[string]bool{} // by family: what has a name for each rank
	family := make([]string, len(paths))
	for i, p := range paths {
		of, name := rankFamily(p)
		if of == "" {
			continue
		}
		if names[of] == nil {
			names[of] = map[string]bool{}
		}
		names[of][name], family[i] = true, of
	}
	one := map[string]bool{}
	for i, p := range paths {
		if family[i] != "" && len(names[family[i]]) == workers &&
			!rankZeroDir.MatchString(path.Base(path.Dir(p))) {
			one[p] = true
		}
	}
	return one
}

// rankFamily is the family of a path that is named after a rank, and the name in it; "" if it is not
// named so.
func rankFamily(p string) (family, name string) {
	dir, base := path.Split(p)
	for i, r := range perRank {
		if r.MatchString(base) {
			return fmt.Sprint(i, " ", dir), base
		}
	}
	if above := path.Clean(dir); rankDir.MatchString(path.Base(above)) {
		return "mp_rank " + path.Dir(above), path.Base(above)
	}
	return "", ""
}
