package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// TestSavesInPartsOutliveFaults is TestSavesOutliveFaults with workers that each save a part
// (--save-from=all). A checkpoint has the parts of all ranks of one generation at one step, and
// remains readable after the loss of any one machine.
func TestSavesInPartsOutliveFaults(t *testing.T) { inParts(t, 10, someFaults) }

// TestSavesInPartsOutliveEveryFault is the same with the faults of TestSavesOutliveEveryFault.
func TestSavesInPartsOutliveEveryFault(t *testing.T) { inParts(t, 10, everyFault) }

func inParts(t *testing.T, most uint64, faults func() mix) {
	eachSeed(t, most, func(t *testing.T, seed uint64) *sim {
		s := newFaulty(t, seed, faults())
		s.layout, s.often, s.job.Rules.SaveFrom = layoutParts, false, checkpoint.SaveFromAll
		return savesOutlive(s)
	})
}

// partEvery is the time between two saves of all ranks.
const partEvery = 2 * time.Second

// lastOf is more than the steps of a generation. The last step of all ranks is a multiple of it.
const lastOf = 10_000

// workInParts trains, and saves a part at the same steps as the other ranks.
func (s *faulty) workInParts(g *simGroup, dir *memfs.FS, step int64) {
	base, began := step, s.beganAt(g.Start.World.Proposal)
	for k := 1 + time.Since(began)/partEvery; ; k++ {
		late := time.Duration(s.rng.of(g.a.name, "work").IntN(300)) * time.Millisecond
		select {
		case <-g.gone:
			return
		case <-g.asked:
			if !s.hangs(g) {
				g.later(time.Millisecond, &message.WorkerExit{Ours: true})
			}
			return
		case <-s.over:
			if !s.hangs(g) {
				s.through(g, dir, step/lastOf*lastOf+lastOf-1)
			}
			return
		case <-time.After(time.Until(began.Add(k*partEvery + late))):
			step = base + 2*int64(k)
			if !s.hangs(g) {
				s.save(g, dir, step)
			}
		}
	}
}

// beganAt is when the first rank of a World began. The others catch up with it.
func (s *faulty) beganAt(proposal string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firstBegan == nil {
		s.firstBegan = map[string]time.Time{}
	}
	if _, there := s.firstBegan[proposal]; !there {
		s.firstBegan[proposal] = time.Now()
	}
	return s.firstBegan[proposal]
}

// part is the content of a file of a save in parts.
type part struct {
	rank, of         int
	generation, step int64
}

const partText = "\x00rank %d/%d generation %d of %d"

// savePart saves the part of one rank.
func (s *faulty) savePart(w saver, step int64) bool {
	rank, world, dir := w.g.Start.Rank, w.g.Start.World, fmt.Sprintf("step-%d", step)
	text := fmt.Sprintf(partText, rank, world.Count, world.Generation, step)
	return w.to.Mkdir(dir+".tmp", 0o700) == nil && w.pause(100*time.Millisecond) &&
		w.write(fmt.Sprintf("%s.tmp/rank-%d.raw", dir, rank), text) && w.alive() &&
		w.to.Rename(dir+".tmp", dir) == nil
}

// stepOfParts is the step of a checkpoint in parts. It checks that they are the parts of all ranks
// of one save. mu is held.
func (s *faulty) stepOfParts(h checkpoint.Head) (int64, error) {
	files, err := s.filesOf(h.Manifest, func(*simHost) bool { return true })
	if err != nil {
		return -1, err
	}
	var first part
	var ranks []int
	for _, text := range files {
		var p part
		if _, err := fmt.Sscanf(text, partText, &p.rank, &p.of, &p.generation, &p.step); err != nil {
			return -1, err
		}
		if ranks = append(ranks, p.rank); len(ranks) == 1 {
			first = p
		}
		if p.of != first.of || p.generation != first.generation || p.step != first.step {
			s.wrongf("checkpoint %d is of several saves: %q", h.Number, files)
		}
	}
	slices.Sort(ranks)
	if len(slices.Compact(ranks)) != first.of || len(files) != first.of {
		s.wrongf("checkpoint %d has the parts of ranks %v, of %d", h.Number, ranks, first.of)
	}
	return first.step, nil
}

var errNoDisk = errors.New("no disk has it")

// filesOf returns the files of a checkpoint that these machines have together. mu is held.
func (s *faulty) filesOf(h manifest.Hash, on func(*simHost) bool) (files []string, err error) {
	var disks []*readonly.Store
	var m *manifest.Manifest
	for _, name := range s.names {
		if host := s.hosts[name]; host != nil && on(host) {
			d := readonly.New(host.chunks(s.job.Name))
			disks = append(disks, d)
			if m == nil {
				m, _ = d.ReadManifest(context.Background(), h) // not every machine has it
			}
		}
	}
	if m == nil {
		return nil, errNoDisk
	}
	for _, f := range m.Files {
		text := make([]byte, f.Size) // of one chunk
		for _, c := range f.Chunks {
			has := func(d *readonly.Store) bool { return d.Chunk(context.Background(), c, text) == nil }
			if !slices.ContainsFunc(disks, has) {
				return nil, errNoDisk
			}
		}
		files = append(files, string(text))
	}
	return files, nil
}

// readable reports whether these machines have every byte of the newest checkpoint: in parts, or one of
// them alone. mu is held.
func (s *faulty) readable(on func(*simHost) bool) bool {
	if s.layout == layoutParts {
		_, err := s.filesOf(s.head.Manifest, on)
		return err == nil
	}
	return slices.ContainsFunc(s.names, func(name string) bool {
		h := s.hosts[name]
		return h != nil && on(h) && s.has(h)
	})
}

// survivesAny reports whether the newest checkpoint is readable without any one machine. mu is held.
func (s *faulty) survivesAny() bool {
	for _, name := range s.names {
		if !s.readable(func(h *simHost) bool { return h != s.hosts[name] }) {
			return false
		}
	}
	return s.head.Number > 0
}
