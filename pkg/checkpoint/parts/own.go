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
	Parts []int              // indexes of the parts; the part of the node's own rank is first
	Files *manifest.Manifest // the checkpoint, with only the files that the node's ranks read
}

// Own returns what the node of a rank needs of a checkpoint: the part that the node of this rank
// saved, and the parts with files that all ranks may read. all has the manifests of the parts, in
// order. If nothing proves that less than the whole checkpoint is enough, Own returns an error, a
// sentence for people.
//
// The proof is a count. In layouts that name files after ranks, each rank writes one name of a
// family, and reads that same name again. So if a family has as many names as there are workers,
// each name belongs to one rank, and the file is in the part of the node of that rank. If a family
// has fewer names, several ranks read the same file.
func Own(whole *manifest.Manifest, all []*manifest.Manifest, r Reader) (Need, error) {
	if whole.WorldSize != r.Workers || len(all) != r.Nodes {
		return Need{}, fmt.Errorf("%d workers in %d parts saved it, and %d workers on %d nodes begin from it",
			whole.WorldSize, len(all), r.Workers, r.Nodes)
	}
	one := ofOneRank(whole.Paths(), r.Workers)
	if len(one) == 0 {
		if format := Format(whole.Paths()); format != "" {
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

// has reports whether a part has the bytes of a file under its name.
func has(part *manifest.Manifest, f manifest.File) bool {
	at, there := slices.BinarySearchFunc(part.Files, f.Path, func(x manifest.File, path string) int {
		return strings.Compare(x.Path, path)
	})
	return there && part.Files[at].Size == f.Size && slices.Equal(part.Files[at].Chunks, f.Chunks)
}

// perRank matches names of files that one rank writes, and reads again: DeepSpeed's shards of the
// optimizer and, without model parallelism, of the parameters; and the random states of
// transformers and accelerate.
var perRank = []*regexp.Regexp{
	regexp.MustCompile(`^(?:bf16_|fp16_)?zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt$`),
	regexp.MustCompile(`^zero_pp_rank_\d+_mp_rank_00_model_states\.pt$`),
	regexp.MustCompile(`^rng_state_\d+\.pth$`),
	regexp.MustCompile(`^random_states_\d+\.pkl$`),
}

// rankZeroDir matches the directory of Megatron from which every rank reads the arguments of the
// training.
var rankZeroDir = regexp.MustCompile(`^mp_rank_00(?:_0+)*$`)

// ofOneRank returns the paths that exactly one rank reads.
func ofOneRank(paths []string, workers int) map[string]bool {
	names := map[string]map[string]bool{} // by family
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

// rankFamily returns the family of a path that is named after a rank, and its name in the family.
// Both are "" for other paths.
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
