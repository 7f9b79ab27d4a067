package capture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/table"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// archive is a zip, as torch.save writes it.
func archive(t *testing.T, weights string) string {
	t.Helper()
	return string(checkpointtest.Zip(t, map[string]string{"w": weights}))
}

// story is what workers do with their directory, and what is taken after each step.
type story struct {
	name  string
	names []string // of --save-files
	from  []string // files of the checkpoint that the job resumed from
	steps []deed
}

// deed is one thing that workers do, and the files of the save that is taken then, or why none is.
type deed struct {
	do    func(b *bench)
	takes string
	entry string
	step  int64
	says  string
}

func writes(files ...string) func(*bench) {
	return func(b *bench) {
		for _, f := range files {
			name, data, given := strings.Cut(f, "=")
			if !given {
				data = archive(b.t, b.now.String())
			}
			b.write(name, data)
		}
	}
}

func renames(from, to string) func(*bench) { return func(b *bench) { b.rename(from, to) } }

func removes(name string) func(*bench) {
	return func(b *bench) { must(b.t, os.RemoveAll(filepath.Join(b.dir, name))) }
}

func ends(how WorkerState) func(*bench) { return func(b *bench) { b.state = how } }

// The rows of the table in docs/CHECKPOINTS.md.
func TestTable(t *testing.T) {
	for _, s := range []story{
		{name: "one file counts from the second save on", steps: []deed{
			{do: writes("model.pt")},
			{do: writes("model.pt"), takes: "model.pt", entry: "model.pt", step: unknown},
			{do: writes("model.pt"), takes: "model.pt", entry: "model.pt", step: unknown}}},
		{name: "one file counts at once after a checkpoint of it", from: []string{"model.pt"}, steps: []deed{
			{do: writes("model.pt"), takes: "model.pt", entry: "model.pt", step: unknown}}},
		{name: "one file of two in the checkpoint is the first", from: []string{"model.pt", "optimizer.pt"},
			steps: []deed{{do: writes("model.pt")},
				{do: writes("optimizer.pt"), says: "--save-files=model.pt,optimizer.pt"}}},
		{name: "a file a step counts when the next one begins", steps: []deed{
			{do: writes("model_step10.pt")},
			{do: writes("model_step20.pt="), takes: "model_step10.pt", entry: "model_step10.pt", step: 10},
			{do: writes("model_step20.pt"), takes: "model_step20.pt", entry: "model_step20.pt", step: 20}}},
		{name: "two files are refused, with what to type", steps: []deed{
			{do: writes("model.pt")},
			{do: writes("optimizer.pt"), says: "no checkpoint is taken: two files are written for each save " +
				"(model.pt, optimizer.pt): run with --save-files=model.pt,optimizer.pt, or write both into one " +
				"directory"},
			{do: writes("model.pt", "optimizer.pt")}, {do: ends(Exited)}}},
		{name: "two files with steps are refused, with what to type", steps: []deed{
			{do: writes("m_step1.pt", "o_step1.pt"), says: "--save-files=m_step*.pt,o_step*.pt"}}},
		{name: "files of ranks are refused", steps: []deed{
			{do: writes("rank_0.pt", "rank_1.pt"), says: "two files are written"}}},
		{name: "named files count when the last one is complete", names: []string{"a.pt", "b.pt"}, steps: []deed{
			{do: writes("a.pt")}, {do: writes("b.pt"), takes: "a.pt b.pt", step: unknown},
			{do: writes("a.pt")}, {do: ends(Killed)}}},
		{name: "named files count after a kill if their format says that they are whole",
			names: []string{"a.pt", "b.pt"}, steps: []deed{
				{do: func(b *bench) { writes("a.pt", "b.pt")(b); b.state = Killed }, takes: "a.pt b.pt", step: unknown}}},
		{name: "named files with the step in their names", names: []string{"a_*.pt", "b_*.pt"}, steps: []deed{
			{do: writes("a_10.pt")}, {do: writes("b_10.pt"), takes: "a_10.pt b_10.pt", step: unknown},
			{do: writes("a_20.pt", "log.txt=x")}, {do: writes("b_20.pt"), takes: "a_20.pt b_20.pt", step: unknown}}},
		{name: "a save without the first of the named files", names: []string{"a.pt", "b.pt"}, steps: []deed{
			{do: writes("a.pt", "b.pt"), takes: "a.pt b.pt", step: unknown},
			{do: writes("b.pt")}, {do: writes("a.pt")}, {do: writes("b.pt"), takes: "a.pt b.pt", step: unknown}}},
		{name: "named files in the wrong order", names: []string{"b.pt", "a.pt"}, steps: []deed{
			{do: writes("a.pt"), says: "b.pt of --save-files is not written, although a.pt is"},
			{do: writes("b.pt")}, {do: writes("a.pt")}, {do: ends(Exited), says: "must be the last one"}}},
		{name: "a name that is never written", names: []string{"a.pt", "c.pt"}, steps: []deed{
			{do: writes("a.pt")},
			{do: writes("a.pt"), says: "c.pt of --save-files is not written, although a.pt is"}}},
		{name: "names of which none is written", names: []string{"modle.pt"}, steps: []deed{
			{do: writes("model.pt")}, {do: writes("model.pt"), says: "modle.pt of --save-files is not written"}}},
		{name: "a directory counts when the next one begins", steps: []deed{
			{do: writes("step-10/a.raw=x", "step-10/b.raw=x")},
			{do: writes("step-20/a.raw=x"), takes: "step-10/a.raw step-10/b.raw", entry: "step-10", step: 10},
			{do: writes("step-20/b.raw=x")},
			{do: ends(Exited), takes: "step-20/a.raw step-20/b.raw", entry: "step-20", step: 20}}},
		{name: "a directory does not count when its worker fails", steps: []deed{
			{do: writes("step-10/a.raw=x")}, {do: ends(Failed), says: "nothing shows that all files"}}},
		{name: "a directory of accelerate", steps: []deed{
			{do: writes("checkpoints/checkpoint_0/model.raw=x", "checkpoints/checkpoint_0/random_states_0.pkl")},
			{do: ends(Exited), takes: "checkpoints/checkpoint_0/model.raw " +
				"checkpoints/checkpoint_0/random_states_0.pkl", entry: "checkpoints/checkpoint_0", step: 0}}},
		{name: "a directory that is renamed counts at once", steps: []deed{
			{do: writes("tmp/a.raw=x")},
			{do: renames("tmp", "step-10"), takes: "step-10/a.raw", entry: "step-10", step: 10}}},
		{name: "a directory without a number that is renamed counts at once", steps: []deed{
			{do: writes("best.tmp/a.raw=x", "best.tmp/b.raw=x")},
			{do: renames("best.tmp", "best"), takes: "best/a.raw best/b.raw", entry: "best", step: unknown}}},
		{name: "transformers", steps: []deed{
			{do: writes("checkpoint-500/m.raw=x", "checkpoint-500/checkpoint-is-incomplete.txt=",
				`checkpoint-500/trainer_state.json={"global_step": 499}`)},
			{do: removes("checkpoint-500/checkpoint-is-incomplete.txt")},
			{do: writes("checkpoint-500/scaler.raw=x"),
				takes: "checkpoint-500/m.raw checkpoint-500/scaler.raw checkpoint-500/trainer_state.json",
				entry: "checkpoint-500", step: 499},
			{do: writes("checkpoint-500/rng_state_1.pth"), takes: "checkpoint-500/m.raw checkpoint-500/rng_state_1.pth " +
				"checkpoint-500/scaler.raw checkpoint-500/trainer_state.json", entry: "checkpoint-500", step: 499},
			{do: writes("checkpoint-500/m.raw=again")},
			{do: writes("model.safetensors=x", "config.json={}")}}},
		{name: "transformers that is killed in its last file", steps: []deed{
			{do: writes("checkpoint-500/m.raw=x", `checkpoint-500/trainer_state.json={"global_`),
				says: "trainer_state.json: it is not whole"},
			{do: ends(Killed)}}},
		{name: "torch's distributed checkpoint", steps: []deed{
			{do: writes("step5/__0_0.distcp=x")}, {do: writes("step6/__0_0.distcp=x")},
			{do: writes("step6/.metadata"), takes: "step6/.metadata step6/__0_0.distcp", entry: "step6", step: 6}}},
		{name: "DeepSpeed", steps: []deed{
			{do: writes("global_step10/a.pt", "zero_to_fp32.py=x")},
			{do: writes("latest=global_step10"), takes: "global_step10/a.pt latest", entry: "global_step10", step: 10},
			{do: writes("global_step15/a.pt")}, // its save fails, and the script goes on
			{do: writes("global_step20/a.pt", "zero_to_fp32.py=y")},
			{do: writes("latest=global_step20"), takes: "global_step20/a.pt latest", entry: "global_step20", step: 20}}},
		{name: "Lightning", steps: []deed{
			{do: writes("e0-step-10.ckpt"), takes: "e0-step-10.ckpt", entry: "e0-step-10.ckpt", step: 10},
			{do: writes("last.ckpt"), takes: "last.ckpt", entry: "last.ckpt", step: unknown},
			{do: writes("e0-step-20.ckpt")},
			{do: writes("last.ckpt"), takes: "last.ckpt", entry: "last.ckpt", step: unknown}}},
		{name: "Lightning writes each save twice", steps: []deed{
			{do: func(b *bench) {
				b.write("e0-step-10.ckpt", archive(b.t, "1"))
				if p := b.newest(900 * time.Millisecond); p != nil {
					b.t.Errorf("%s is taken", paths(p))
				}
				b.write("last.ckpt", archive(b.t, "1"))
			}, takes: "last.ckpt", entry: "last.ckpt", step: unknown}}},
		{name: "a mark in a directory", steps: []deed{
			{do: writes("out/m.raw=x")},
			{do: writes(`out/.elastic-commit={"step": 7}`), takes: "out/.elastic-commit out/m.raw", entry: "out", step: 7},
			{do: writes("out/m.raw=y", "other.raw=x")}, {do: writes("step-9/a.raw=x", "step-10/a.raw=x")},
			{do: ends(Exited), says: "it has none"}}},
		{name: "a mark beside a file", steps: []deed{
			{do: writes("m.raw=x")},
			{do: writes(`m.raw.elastic-commit={"step": 7}`), takes: "m.raw m.raw.elastic-commit", entry: "m.raw", step: 7},
			{do: writes("m.raw=y")}, {do: writes("m.raw=z")},
			{do: writes(`m.raw.elastic-commit={}`), takes: "m.raw m.raw.elastic-commit", entry: "m.raw", step: unknown}}},
		{name: "a directory that is being deleted is no save", steps: []deed{
			{do: writes("step-10/a.raw=x", "step-10/b.raw=x")},
			{do: func(b *bench) { removes("step-10/a.raw")(b); writes("step-20/a.raw=x")(b) }},
			{do: ends(Killed), says: "files of it were removed"}}},
		{name: "a file that is added to an older directory", steps: []deed{
			{do: writes("step-10/a.raw=x")},
			{do: writes("step-20/a.raw=x"), takes: "step-10/a.raw", entry: "step-10", step: 10},
			{do: writes("step-30/a.raw=x"), takes: "step-20/a.raw", entry: "step-20", step: 20},
			{do: writes("step-10/results.json={}")}}},
		{name: "a broken file", steps: []deed{
			{do: writes("model.pt")}, {do: writes("model.pt=PK\x03\x04"), says: "model.pt: it is not whole"}}},
		{name: "an empty file", steps: []deed{
			{do: writes("model.pt="), says: "model.pt: it is empty"}}},
		{name: "what belongs to no save", steps: []deed{
			{do: writes("model.pt", "train.log=x", "m.jsonl=x", "events.out.tfevents.1=x", "runs/a=x", ".hidden=x",
				"a.tmp=x", "tmpab12=x", "a~=x", "train.py=x", "wandb/x=x")},
			{do: writes("model.pt"), takes: "model.pt", entry: "model.pt", step: unknown}}},
	} {
		t.Run(s.name, func(t *testing.T) { s.play(t) })
	}
}

func (s story) play(t *testing.T) {
	b := &bench{t: t, dir: t.TempDir(), now: time.Now(), names: s.names}
	var resume *manifest.Manifest
	for _, f := range s.from {
		b.write(f, archive(t, "before"))
		resume = &manifest.Manifest{Files: append(filesOf(resume), manifest.File{Path: f})}
	}
	b.watch(resume)
	for i, d := range s.steps {
		b.refused = nil
		b.settle()
		d.do(b)
		b.settle()
		got := b.newest(2 * time.Second)
		entry, step := d.entry, d.step
		if b.want(got, d.takes, entry, step); t.Failed() {
			t.Fatalf("at step %d, refused: %v", i, b.refused)
		}
		if said := b.said(); d.says == "" && strings.Contains(said, ErrNotYet.Error()) && i == 0 ||
			!strings.Contains(said, d.says) {
			t.Fatalf("at step %d it says %q, want %q", i, said, d.says)
		}
	}
}

func filesOf(m *manifest.Manifest) manifest.Files {
	if m == nil {
		return nil
	}
	return m.Files
}

// newest looks until nothing more is found, and returns what was found last.
func (b *bench) newest(d time.Duration) (p *Picture) {
	b.t.Helper()
	if b.state != Running {
		return b.once(true)
	}
	for end := b.now.Add(d); b.now.Before(end); b.now = b.now.Add(100 * time.Millisecond) {
		if got := b.once(false); got != nil {
			p = got
		}
	}
	return p
}

func (b *bench) said() string {
	var all []string
	for _, r := range b.refused {
		all = append(all, r.Err.Error())
	}
	return strings.Join(all, "\n")
}

// settle returns when the file system's clock moved on.
func (b *bench) settle() { b.afterWrite(b.dir) }

// Files that were there before the first worker, and do not change, are no part of a save.
func TestWhatWasThereBefore(t *testing.T) {
	b := newBench(t, "config.json", "step-1/a.raw")
	b.write("model.pt", archive(t, "1"))
	b.want(b.newest(time.Second), "", "", 0)
	b.settle()
	b.write("model.pt", archive(t, "2"))
	b.want(b.newest(time.Second), "model.pt", "model.pt", unknown)
}

// A refusal is repeated once a minute.
func TestRefusalsAreRepeated(t *testing.T) {
	b := newBench(t)
	b.write("a.pt", archive(t, "1"))
	b.write("b.pt", archive(t, "1"))
	b.newest(3 * time.Minute)
	if len(b.refused) != 3 {
		t.Errorf("%d refusals in three minutes: %s", len(b.refused), b.said())
	}
	for _, r := range b.refused {
		if r.Reason != table.SeveralFiles || r.Path == "" {
			t.Errorf("%+v", r)
		}
	}
}

// A file that is open for writing is not complete. One that stays open is reported.
func TestOpenFile(t *testing.T) {
	b := &bench{t: t, dir: t.TempDir(), now: time.Now()}
	b.watch(&manifest.Manifest{Files: manifest.Files{{Path: "a.raw"}}})
	b.c.resumed = "a.raw"
	f, err := os.Create(filepath.Join(b.dir, "a.raw"))
	must(t, err)
	_, err = f.WriteString("\x00half")
	must(t, err)
	b.want(b.newest(5*time.Second), "", "", 0)
	if b.said() != "" {
		t.Errorf("says %q", b.said())
	}
	b.want(b.newest(10*time.Second), "", "", 0)
	if len(b.refused) != 1 || b.refused[0].Reason != table.StaysOpen {
		t.Errorf("says %q", b.said())
	}
	must(t, f.Close())
	b.want(b.newest(2*time.Second), "a.raw", "a.raw", unknown)
}

// A file that is written through a memory map is not complete before it is unmapped.
func TestMappedFile(t *testing.T) {
	l := books{}.begin(t, scenario{})
	l.c.resumed = "a.raw"
	calls := func(ops ...string) {
		for _, op := range ops {
			l.w.tick()
			l.w.make(call{Op: op, Name: "a.raw", Data: []byte("\x00a save")})
			l.looks(100*time.Millisecond, false)
		}
	}
	l.step, l.steps = 1, []*script{nil, {files: map[string]string{"a.raw": "\x00a save"}}}
	calls("create", "write", "close")
	l.passes(2 * time.Second)
	calls("open", "map", "close", "store")
	l.passes(2 * time.Second)
	if len(l.taken) != 1 {
		t.Errorf("taken while it is mapped: %q", l.taken)
	}
	calls("unmap")
	l.passes(2 * time.Second)
	if len(l.taken) != 2 {
		t.Errorf("taken: %q", l.taken)
	}
}

// A file whose format cannot tell that it is whole counts when workers still run a second after they
// closed it.
func TestOpaqueFileRests(t *testing.T) {
	for state, takes := range map[WorkerState]string{Running: "a.raw", Failed: "", Killed: "", Exited: "a.raw"} {
		b := &bench{t: t, dir: t.TempDir(), now: time.Now()}
		b.watch(nil)
		b.c.resumed = "a.raw"
		b.write("a.raw", "\x00save")
		b.want(b.newest(900*time.Millisecond), "", "", 0)
		b.state = state
		b.now = b.now.Add(300 * time.Millisecond)
		if got := paths(b.once(state != Running)); got != takes {
			t.Errorf("%v: %q is taken, want %q", state, got, takes)
		}
	}
}

// A file that is written again before it rests is reported.
func TestHaste(t *testing.T) {
	b := newBench(t)
	b.c.resumed = "a.raw"
	for range 12 {
		b.write("a.raw", b.now.String())
		b.settle()
		b.want(b.newest(500*time.Millisecond), "", "", 0)
	}
	if len(b.refused) != 1 || b.refused[0].Reason != Overwritten {
		t.Errorf("says %q", b.said())
	}
}

// After an error a file counts only if it was seen closed before.
func TestWorkerThatFails(t *testing.T) {
	for _, seen := range []bool{true, false} {
		b := &bench{t: t, dir: t.TempDir(), now: time.Now()}
		b.watch(nil)
		b.write("a.pt", archive(t, "1"))
		b.newest(time.Second)
		b.settle()
		b.write("a.pt", archive(t, "2"))
		if seen {
			b.c.workers.State = func() WorkerState { return Running }
			_, _, err := b.c.Look(b.now.Add(time.Second))
			must(t, err)
			b.c.workers.State = func() WorkerState { return b.state }
		}
		b.state = Failed
		if got := paths(b.once(true)); (got == "a.pt") != seen {
			t.Errorf("seen closed: %t, %q is taken", seen, got)
		}
	}
}

// A script that sets the times of its file is seen to write.
func TestTimesThatAreSetBack(t *testing.T) {
	b := newBench(t)
	at := b.now.Add(-time.Hour)
	var got []string
	for i := range 3 {
		b.write("a.raw", "\x00"+string(rune('a'+i)))
		must(t, os.Chtimes(filepath.Join(b.dir, "a.raw"), at, at))
		b.settle()
		p := b.newest(3 * time.Second)
		if got = append(got, paths(p)); p != nil && !p.Save.Files[0].Unsure && i > 1 {
			t.Error("the bytes count as those of the save before")
		}
	}
	if want := []string{"", "a.raw", "a.raw"}; !slices.Equal(got, want) {
		t.Errorf("takes %q, want %q", got, want)
	}
}

// A directory lost a file before the first look at it. What is left is no save.
func TestADirectoryThatIsBeingDeletedWhenItIsFirstSeen(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"step-1/a.pt", "step-1/b.pt", "step-2/a.pt", "step-2/b.pt"} {
		b.write(name, archive(t, name))
	}
	b.settle()
	must(t, os.Remove(filepath.Join(b.dir, "step-1/a.pt")))
	if p := b.newest(time.Second); p != nil {
		t.Errorf("takes %s", paths(p))
	}
	b.write("step-3/a.pt", archive(t, "3"))
	b.want(b.newest(time.Second), "step-2/a.pt step-2/b.pt", "step-2", 2)
}

// Directories that belong to the agent are no part of a save.
func TestExcludedDirectories(t *testing.T) {
	b := &bench{t: t, dir: t.TempDir(), now: time.Now()}
	b.exclude = []string{filepath.Join(b.dir, "state")}
	must(t, os.Mkdir(b.exclude[0], 0o700))
	b.watch(nil)
	b.write("state/a.raw", "x")
	b.write("model.pt", archive(t, "1"))
	b.newest(time.Second)
	b.settle()
	b.write("state/a.raw", "y")
	b.write("model.pt", archive(t, "2"))
	b.want(b.newest(time.Second), "model.pt", "model.pt", unknown)
}

// A script may remove its directory and make it again.
func TestDirectoryMadeAnew(t *testing.T) {
	b := newBench(t)
	b.newest(time.Second)
	must(t, os.RemoveAll(b.dir))
	b.write("tmp/a.raw", "x")
	b.newest(time.Second)
	b.rename("tmp", "step-3")
	b.want(b.newest(time.Second), "step-3/a.raw", "step-3", 3)
}

func TestPauseFollowsTheCost(t *testing.T) {
	b := newBench(t)
	b.once(false)
	if p := b.c.Pause(); p < pauseMin || p > pauseMax {
		t.Errorf("pauses for %v", p)
	}
	b.write("a.pt", "x")
	b.once(false)
	if p := b.c.Pause(); p < pauseBusy || p > pauseMax || b.c.Rest() != p {
		t.Errorf("pauses for %v and rests for %v while a save is written", p, b.c.Rest())
	}
}

func TestNumbersInNames(t *testing.T) {
	for name, want := range map[string]struct {
		family string
		step   int64
	}{
		"step-120/":                  {"step-#", 120},
		"checkpoint-500/":            {"checkpoint-#", 500},
		"120/":                       {"#", 120},
		"iter_0000100/":              {"iter_#", 100},
		"model_step20.pt":            {"model_step#.pt", 20},
		"a/ckpt_7.pt":                {"a/ckpt_#.pt", 7},
		"epoch=2-step=30.ckpt":       {"epoch=#-step=#.ckpt", 30},
		"v2_step4.pt":                {"v2_step#.pt", 4},
		"0.pt":                       {"0.pt", unknown},
		"rank_1.pt":                  {"rank_1.pt", unknown},
		"zero_to_fp32.py":            {"zero_to_fp32.py", unknown},
		"rng_state_1.pth":            {"rng_state_1.pth", unknown},
		"resnet50/":                  {"resnet50", unknown},
		"step-99999999999999999999/": {"step-#", unknown},
	} {
		base, dir := strings.CutSuffix(name, "/")
		e := &entry{name: base, dir: dir}
		n, ok := e.number()
		if !ok {
			n = unknown
		}
		if e.family() != want.family || n != want.step {
			t.Errorf("%s: %s, %d; want %+v", name, e.family(), n, want)
		}
	}
}
