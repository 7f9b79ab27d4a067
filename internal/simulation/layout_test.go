package simulation

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// layout is how the workers of a story save. Each file has its step in it.
type layout int

const (
	layoutMarked       layout = iota // step-N/, with .elastic-commit
	layoutInPlace                    // one file, written over, in a directory with a digit in its name
	layoutPair                       // two files, each renamed to its name, with a pause between
	layoutNumbers                    // two files with the step in their names, with a pause between
	layoutRenamed                    // step-N.tmp/, renamed
	layoutMarkedBeside               // one file under a new name without a number, with a mark beside it
	layoutParts                      // step-N.tmp/, renamed, with a file of each rank on its own machine
	layoutUnsure                     // one file, written over, that is never whole by its own format
)

// counts reports whether each save has its own name. Of several saves in a directory the newest
// counts.
func (l layout) counts() bool {
	return l == layoutMarked || l == layoutNumbers || l == layoutRenamed || l == layoutMarkedBeside ||
		l == layoutParts
}

// saveFiles are the files that make one save, as --save-files names them.
func (l layout) saveFiles() checkpoint.SaveFiles {
	switch l {
	case layoutPair:
		return "model.raw,optimizer.raw"
	case layoutNumbers:
		return "model_step*.raw,optim_step*.raw"
	}
	return ""
}

// layouts has each of them as often as it is chosen.
var layouts = []layout{layoutMarked, layoutMarked, layoutMarked, layoutMarked, layoutInPlace, layoutInPlace,
	layoutPair, layoutPair, layoutNumbers, layoutRenamed}

// ownDir is a directory of the agent below the checkpoint directory. It is no part of a save.
const ownDir = "agent"

// saver is a worker of rank 0 while it saves.
type saver struct {
	s  *faulty
	g  *simGroup
	to *memfs.FS
}

// alive reports whether the worker has not been ended.
func (w saver) alive() bool {
	select {
	case <-w.g.gone:
		return false
	default:
		return true
	}
}

// write makes a file, or writes over it.
func (w saver) write(name, data string) bool {
	if !w.alive() {
		return false
	}
	if _, err := w.to.Lstat(name); err == nil {
		return w.to.Overwrite(name, []byte(data)) == nil
	}
	f, err := w.to.Create(name, 0o600)
	if err != nil {
		return false
	}
	_, err = f.Write([]byte(data))
	return errors.Join(err, f.Close()) == nil
}

// pause is the time that passes between two files. It reports whether the worker still lives.
func (w saver) pause(most time.Duration) bool {
	select {
	case <-w.g.gone:
		return false
	case <-time.After(time.Duration(1 + w.s.rng.of(w.g.a.name, "pause").Int64N(int64(most)))):
		return true
	}
}

// publish writes a file under a temporary name, and gives it its name.
func (w saver) publish(name, data string) bool {
	return w.write(name+".tmp", data) && w.pause(20*time.Millisecond) && w.alive() &&
		w.to.Rename(name+".tmp", name) == nil
}

// save saves a step as the layout of the story is.
func (s *faulty) save(g *simGroup, to *memfs.FS, step int64) {
	w := saver{s, g, to}
	weights, moments := fmt.Sprint("\x00weights of ", step), fmt.Sprint("\x00moments of ", step)
	whole := false
	switch s.layout {
	case layoutMarked:
		whole = s.saveMarked(w, step)
	case layoutParts:
		whole = s.savePart(w, step)
	case layoutUnsure:
		w.write("last.pt", "PK\x03\x04"+weights)
	case layoutMarkedBeside:
		whole = s.saveMarkedBeside(w, step)
	case layoutInPlace:
		whole = to.Mkdir("resnet50", 0o700) == nil && w.write("resnet50/last.raw", weights)
	case layoutPair:
		whole = w.publish("model.raw", weights) && w.pause(900*time.Millisecond) &&
			w.publish("optimizer.raw", moments)
	case layoutNumbers:
		model, optim := fmt.Sprintf("model_step%d.raw", step), fmt.Sprintf("optim_step%d.raw", step)
		whole = w.publish(model, weights) && w.pause(900*time.Millisecond) && w.publish(optim, moments)
	case layoutRenamed:
		dir := fmt.Sprintf("step-%d", step)
		whole = to.Mkdir(dir+".tmp", 0o700) == nil && w.write(dir+".tmp/model.raw", weights) &&
			w.pause(100*time.Millisecond) && w.write(dir+".tmp/optimizer.raw", moments) && w.alive() &&
			to.Rename(dir+".tmp", dir) == nil
	}
	if whole {
		s.saved(w, step)
	}
}

// saveMarked may be interrupted at any file.
func (s *faulty) saveMarked(w saver, step int64) bool {
	dir := fmt.Sprintf("step-%d", step)
	if w.to.Mkdir(dir, 0o700) != nil {
		return false
	}
	for _, f := range [][2]string{{"model.raw", fmt.Sprint("weights of ", step)},
		{"optimizer.raw", fmt.Sprint("moments of ", step)},
		{".elastic-commit", fmt.Sprintf(`{"step":%d}`, step)}} {
		if !w.write(dir+"/"+f[0], f[1]) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return w.alive()
}

// saveMarkedBeside writes a file under a temporary name, removes the one before, writes the mark of
// the new one, and then renames it. So the file under its name always has a mark.
func (s *faulty) saveMarkedBeside(w saver, step int64) bool {
	name := "model-" + inLetters(step) + ".raw"
	if !w.write(name+".tmp", fmt.Sprint("\x00weights of ", step)) || !w.pause(100*time.Millisecond) {
		return false
	}
	entries, _ := w.to.ReadDir(".")
	for _, e := range entries {
		old := strings.HasPrefix(e.Name(), "model-") && !strings.HasPrefix(e.Name(), name)
		if old && w.to.Remove(e.Name()) != nil {
			return false
		}
	}
	return w.alive() && w.write(name+".elastic-commit", fmt.Sprintf(`{"step":%d}`, step)) &&
		w.pause(20*time.Millisecond) && w.to.Rename(name+".tmp", name) == nil
}

// inLetters is a number written without digits.
func inLetters(n int64) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(n))
}

// saved removes saves older than step, as a trainer does that keeps the newest.
func (s *faulty) saved(w saver, step int64) {
	s.mu.Lock()
	s.whole = step
	s.mu.Unlock()
	d := dirfs.NewDisk(w.to, "")
	entries, _ := w.to.ReadDir(".")
	for _, e := range entries {
		var n int64
		for _, pattern := range []string{"step-%d", "model_step%d.raw", "optim_step%d.raw"} {
			if _, err := fmt.Sscanf(e.Name(), pattern, &n); err == nil && n < step {
				_ = d.RemoveAll(e.Name())
			}
		}
	}
}

// chatter writes the agent's own file all the time, like a log.
func (s *faulty) chatter(a *simAgent) {
	for i := 0; !a.isDead(); i++ {
		s.mu.Lock()
		w := saver{s, nil, a.host.work(s.job.Name)}
		s.mu.Unlock()
		w.note(fmt.Sprint("line ", i))
		select {
		case <-a.done:
			return
		case <-time.After(time.Duration(300+s.rng.of(a.name, "chatter").IntN(500)) * time.Millisecond):
		}
	}
}

func (w saver) note(text string) {
	name := ownDir + "/state.raw"
	if w.to.Overwrite(name, []byte(text)) == nil {
		return
	}
	if w.to.Mkdir(ownDir, 0o700) != nil {
		return
	}
	if f, err := w.to.Create(name, 0o600); err == nil {
		_, err = f.Write([]byte(text))
		_ = errors.Join(err, f.Close())
	}
}

// stepOfText is the step in the text of a file.
func stepOfText(text string) (n int64, ok bool) {
	_, of, ok := strings.Cut(text, " of ")
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscan(of, &n)
	return n, err == nil
}

// steps returns the steps of the saves in a checkpoint directory, without unfinished ones.
func steps(dir *memfs.FS) (all []int64) {
	list, err := dir.ReadDir(".")
	if err != nil {
		return nil
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), ".tmp") || e.Name() == ownDir {
			continue
		}
		found, err := dirfs.Walk(dir, e.Name(), nil)
		if err != nil {
			return nil
		}
		for _, f := range found {
			if strings.HasSuffix(f.Path, ".tmp") || path.Ext(f.Path) != ".raw" {
				continue
			}
			text, err := (&dirfs.Disk{FS: dir}).ReadFile(f.Path, 1<<20)
			if n, ok := stepOfText(string(text)); ok && err == nil {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// stepOf is the step of a checkpoint, all of whose files are of one save. It is read when the
// checkpoint is first seen; -1: no disk has it. mu is held.
func (s *faulty) stepOf(h checkpoint.Head) int64 {
	if h.Number == 0 {
		return 0
	}
	if n, ok := s.stepsOf[h.Manifest]; ok {
		return n
	}
	if s.layout == layoutParts {
		n, err := s.stepOfParts(h)
		if err == nil {
			s.stepsOf[h.Manifest] = n
		}
		return n
	}
	for _, name := range s.names {
		host := s.hosts[name]
		if host == nil {
			continue
		}
		all, err := stepsIn(host.chunks(s.job.Name), h.Manifest)
		if errors.Is(err, errForeign) {
			s.wrongf("checkpoint %d: %v", h.Number, err)
		}
		if err != nil {
			continue
		}
		if len(all) != 1 {
			s.wrongf("checkpoint %d has files of the steps %v", h.Number, all)
		}
		n := int64(-1)
		if len(all) > 0 {
			n = all[len(all)-1]
		}
		s.stepsOf[h.Manifest] = n
		return n
	}
	return -1
}

var errForeign = errors.New("a file of the agent is in the checkpoint")

// stepsIn are the steps of the files of a checkpoint on a disk.
func stepsIn(chunks *memfs.FS, h manifest.Hash) (all []int64, err error) {
	store := readonly.New(chunks)
	m, bad, err := store.Verify(context.Background(), h)
	if err != nil || m == nil || len(bad) > 0 {
		return nil, errors.Join(err, chunkstore.ErrDamaged)
	}
	for _, f := range m.Files {
		if strings.HasPrefix(f.Path, ownDir+"/") {
			return nil, errForeign
		}
		text := make([]byte, f.Size) // of one chunk
		for _, c := range f.Chunks {
			if err := store.Chunk(context.Background(), c, text); err != nil {
				return nil, err
			}
		}
		if n, ok := stepOfText(string(text)); ok {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
