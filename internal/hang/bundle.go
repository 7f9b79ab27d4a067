package hang

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/regular"
)

const (
	// of one bundle; evidence that does not fit is left out, and the bundle says so
	bundleBytes = 256 << 20
	mostOfRank  = 4 << 20
	mostBundles = 5 // kept in a log directory
	bundleName  = "hang-"
)

// Room returns the largest size of one rank's evidence in a world of that size.
func Room(world int) int { return min(mostOfRank, bundleBytes/max(world, 1)) }

// Bundle is the evidence of one hang.
type Bundle struct {
	Summary string
	All     []Evidence
	NodeOf  func(rank int) string
}

// Write writes a bundle into the log directory logs, and removes the oldest bundles if there are
// too many.
func (b *Bundle) Write(logs string, generation uint64) (dir string, err error) {
	dir = filepath.Join(logs, bundleName+strconv.FormatUint(generation, 10))
	if err := os.RemoveAll(dir); err != nil {
		return dir, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil { // new, so nobody else writes there
		return dir, err
	}
	slices.SortFunc(b.All, func(x, y Evidence) int { return cmp.Compare(x.Rank, y.Rank) })
	left, summary := bundleBytes, b.Summary
	for _, e := range b.All {
		text := b.text(e)
		if left -= len(text) + len(e.Flight); left < 0 {
			summary += fmt.Sprintf("rank %d and those after it: left out, the bundle is full\n", e.Rank)
			break
		}
		rank := strconv.Itoa(e.Rank)
		if err := regular.Replace(filepath.Join(dir, "rank-"+rank+".txt"), []byte(text)); err != nil {
			return dir, err
		}
		if len(e.Flight) == 0 {
			continue
		}
		// torchfrtrace reads the files of a directory whose names end with the rank
		if err := regular.Replace(filepath.Join(dir, "flight-"+rank), e.Flight); err != nil {
			return dir, err
		}
	}
	if err := regular.Replace(filepath.Join(dir, "summary.txt"), []byte(summary)); err != nil {
		return dir, err
	}
	return dir, trim(logs)
}

func (b *Bundle) text(e Evidence) string {
	return fmt.Sprintf("rank %d, node %s, local rank %d, pid %d\nstate %s\nwaits in %s\nsystem call "+
		"%s\nprogress %s\n\nkernel:\n%s\n\nthreads:\n%s\nPython:\n%s\n",
		e.Rank, b.NodeOf(e.Rank), e.LocalRank, e.PID, e.State, e.WChan, e.Syscall, e.Progress, e.Kernel,
		e.Threads,
		e.Stack)
}

// trim removes the oldest bundles.
func trim(logs string) error {
	var generations []int
	for _, name := range namesIn(logs) {
		rest, ok := strings.CutPrefix(name, bundleName)
		if g, err := strconv.Atoi(rest); ok && err == nil {
			generations = append(generations, g)
		}
	}
	slices.Sort(generations)
	for _, g := range generations[:max(0, len(generations)-mostBundles)] {
		if err := os.RemoveAll(filepath.Join(logs, bundleName+strconv.Itoa(g))); err != nil {
			return err
		}
	}
	return nil
}
