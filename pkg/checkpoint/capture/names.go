package capture

import (
	"path"
	"regexp"
	"strconv"
)

var (
	stepName = regexp.MustCompile(
		`(?i)(?:^|[^a-z])(?:global_?step|steps?|iter|iterations?|checkpoint|ckpt)[-_=]?(\d+)`)
	countFile = regexp.MustCompile(
		`(?i)(?:^|[^a-z])(?:global_?step|steps?|iter|iterations?|checkpoint|ckpt|epochs?)[-_=]?(\d+)`)
	countDir   = regexp.MustCompile(countFile.String() + `|^(\d+)`)
	trackedDir = regexp.MustCompile(`^(?:iter_\d{7}|global_step\d+)$`)
)

// trackers are the files in which Megatron and DeepSpeed name the newest complete directory.
var trackers = map[string]bool{"latest_checkpointed_iteration.txt": true, "latest": true}

// counted returns where the numbers in a name are that count steps or epochs. A file that begins with
// another number may be that of a rank.
func (e *entry) counted() (at [][2]int) {
	name, re := path.Base(e.name), countFile
	if e.dir {
		re = countDir
	}
	for _, m := range re.FindAllStringSubmatchIndex(name, -1) {
		i := len(m) - 2
		if m[i] < 0 {
			i -= 2
		}
		at = append(at, [2]int{m[i], m[i+1]})
	}
	return at
}

// parse reads a number. It reports false if the number does not fit.
func parse(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
