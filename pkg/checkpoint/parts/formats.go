package parts

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	shardName = regexp.MustCompile(`__\d+_\d+\.distcp`)
	rankFile  = regexp.MustCompile(
		`^(?:bf16_|fp16_)?(?:zero_)?(?:[a-z]+_)?rank_\d+.*_(?:optim|model)_states\.pt$`)
	rankDir   = regexp.MustCompile(`^mp_rank_\d+(?:_\d+)*$`)
	rankIndex = regexp.MustCompile(`rank_(\d+)((?:_\d+)*)`)
	digitRuns = regexp.MustCompile(`\d+`)
)

// Metadata is the name of the file in which torch's distributed checkpoint lists its shards.
const Metadata = ".metadata"

// Shards returns the shards that a .metadata of torch's distributed checkpoint names. The file is a
// pickle, which has the names as plain text.
func Shards(metadata []byte) []string {
	var names []string
	for _, b := range shardName.FindAll(metadata, -1) {
		names = append(names, string(b))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Format returns the name of the shard format that the paths of a save show, "" if they show none.
func Format(paths []string) string {
	for _, p := range paths {
		dir, name := path.Split(p)
		switch above := path.Base(path.Clean(dir)); {
		case shardName.MatchString(name) && path.Ext(name) == ".distcp":
			return "torch.distributed.checkpoint"
		case rankDir.MatchString(above):
			return "Megatron"
		case rankFile.MatchString(name):
			return "DeepSpeed"
		}
	}
	return ""
}

// Alone reports whether the paths are a whole save of torch's distributed checkpoint. named has, by
// the path of each .metadata, the shards that it names.
func Alone(paths []string, named map[string][]string) bool {
	return Format(paths) == "torch.distributed.checkpoint" && Missing(paths, named) == nil
}

// Missing returns an error, one sentence for people, if a shard is not among the paths of a save. A
// .metadata names its shards. In the names of DeepSpeed and Megatron the ranks have no gaps.
func Missing(paths []string, named map[string][]string) error {
	there := map[string]bool{}
	for _, p := range paths {
		there[p] = true
	}
	for _, p := range paths {
		list := path.Join(path.Dir(p), Metadata)
		if path.Ext(p) == ".distcp" && !there[list] {
			return fmt.Errorf("%s is there and %s, which lists the shards, is not", p, list)
		}
	}
	for _, p := range paths {
		for _, shard := range named[p] {
			if want := path.Join(path.Dir(p), shard); !there[want] {
				return fmt.Errorf("the shard %s is missing, which %s names", want, p)
			}
		}
	}
	return gap(paths)
}

// gap returns an error if a rank is missing in the names of DeepSpeed or Megatron.
func gap(paths []string) error {
	families := map[string]map[string]bool{} // by name without ranks: the ranks
	example := map[string]string{}
	for _, p := range paths {
		if Format([]string{p}) == "" || path.Ext(p) == ".distcp" {
			continue
		}
		key := rankIndex.ReplaceAllString(p, "rank_#")
		ranks := strings.Join(digitRuns.FindAllString(strings.Join(rankIndex.FindAllString(p, -1), " "), -1), " ")
		if families[key] == nil {
			families[key], example[key] = map[string]bool{}, p
		}
		families[key][ranks] = true
	}
	keys := []string{}
	for key := range families {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if n, want := len(families[key]), product(families[key]); n < want {
			return fmt.Errorf("%d of %d shards like %s are there", n, want, example[key])
		}
	}
	return nil
}

// product returns how many combinations of indexes there are, if each index counts from 0 to the
// largest one in ranks.
func product(ranks map[string]bool) int {
	var most []int
	for r := range ranks {
		for i, s := range strings.Fields(r) {
			n, err := strconv.Atoi(s)
			if err != nil || n > 1<<20 {
				return 1 << 30 // no world has such a rank
			}
			if i == len(most) {
				most = append(most, 0)
			}
			most[i] = max(most[i], n)
		}
	}
	all := 1
	for _, n := range most {
		if all *= n + 1; all > 1<<30 {
			return 1 << 30
		}
	}
	return all
}
