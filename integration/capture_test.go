package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// saving runs one node with a Python script of these lines. In it save(name, step) overwrites a
// file in place.
func saving(p *sandbox, body string, flags ...string) *proc {
	p.t.Helper()
	script := `import os, sys, time
d = os.environ["ELASTIC_CHECKPOINT_DIR"]
def save(name, step):
    os.makedirs(os.path.dirname(f"{d}/{name}"), exist_ok=True)
    with open(f"{d}/{name}", "wb") as f:
        f.write(b"\0")
        f.flush()
        time.sleep(0.1)
        f.write(b"%06d" % step)
def load(name):
    path = f"{d}/{name}"
    return int(open(path, "rb").read()[1:]) if os.path.exists(path) else 0
` + body
	if err := os.WriteFile(p.path("save.py"), []byte(script), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return p.run(append(append([]string{"--node=a", "--np=1", "--job_id=x", "--console=all", "--log-dir=log-a"},
		flags...), "/usr/bin/python3", p.path("save.py"))...)
}

// began returns which files the script of a generation found when it began.
var began = regexp.MustCompile(`(?m)began (.*)$`)

func begins(t *testing.T, a *proc, want ...string) {
	t.Helper()
	var got []string
	for _, m := range began.FindAllStringSubmatch(a.stdout(), -1) {
		got = append(got, m[1])
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the generations began at %q, want %q\n%s", got, want, tail(a.stderr()))
	}
}

// A script overwrites a file in place, in a directory with a digit in its name. Each save from the
// second on is committed.
func TestEachSaveInADirectoryWithADigit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"resnet50/last.pt", "exp1/ckpt/last.pt"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			a := saving(p, fmt.Sprintf(`
name = %q
step = load(name)
print("began", step, flush=True)
os.makedirs(os.path.dirname(f"{d}/{name}"), exist_ok=True)
time.sleep(1)  # the agent watches the directory before the first save: its format cannot tell that it is whole
if step == 0:
    for step in range(1, 5):
        save(name, step)
        time.sleep(2.5)
    sys.exit(7)
`, name))
			p.ends(a, 0)
			begins(t, a, "0", "4")
			if n := len(kinds(p.events("x"), "checkpoint_committed")); n != 3 {
				t.Errorf("%d of 3 saves were committed", n)
			}
		})
	}
}

// Model and optimizer are written with two seconds in between, in place or renamed to their names, and the
// worker is killed in that time. With their names the next generation has both files of the save before.
// Without them nothing is committed, and what to type is said within a second of the second file.
func TestKilledBetweenTwoFiles(t *testing.T) {
	t.Parallel()
	for how, put := range map[string]string{"in place": "put = save\n", "renamed": renamedTo} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			a := saving(p, put+twoFiles, "--save-files=model.raw,optimizer.raw")
			p.ends(a, 0)
			begins(t, a, "0 0", "2 2")
		})
		t.Run(how+", not named", func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			a := saving(p, put+twoFiles, "--max-restarts=0")
			p.ends(a, 137)
			all := p.events("x")
			if n := len(kinds(all, "checkpoint_committed")); n != 0 {
				t.Errorf("%d saves were committed", n)
			}
			refused := kinds(all, "checkpoint_refused")
			if len(refused) == 0 {
				t.Fatalf("not refused\n%s", tail(a.stderr()))
			}
			at, err := time.Parse(time.RFC3339Nano, refused[0].Time)
			written, err2 := strconv.ParseFloat(strings.TrimSpace(content(p.path("second"))), 64)
			if late := float64(at.UnixMilli())/1000 - written; err != nil || err2 != nil || late > 1 {
				t.Errorf("refused %.1f s after the second file: %v, %v", late, err, err2)
			}
			if !strings.Contains(a.stderr(), "run with --save-files=model.raw,optimizer.raw") {
				t.Errorf("%s", tail(a.stderr()))
			}
		})
	}
}

// A script that writes two files is refused. Its user ends the agent, and types what the refusal names.
func TestWhatARefusalNamesIsTyped(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a := saving(p, "put = save\n"+twoFiles)
	p.says(a, "run with --save-files=model.raw,optimizer.raw")
	if err := a.kill(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.ends(a, 130)
	a = saving(p, "put = save\n"+twoFiles, "--save-files=model.raw,optimizer.raw")
	p.ends(a, 0)
	begins(t, a, "0 0", "2 2")
}

const renamedTo = `
def put(name, step):
    save(name + ".tmp", step)
    os.replace(f"{d}/{name}.tmp", f"{d}/{name}")
`

const twoFiles = `
print("began", load("model.raw"), load("optimizer.raw"), flush=True)
if load("model.raw") == 0:
    for step in range(1, 4):
        put("model.raw", step)
        time.sleep(2)
        if step == 3:
            os.kill(os.getpid(), 9)
        put("optimizer.raw", step)
        if step == 1:
            open("second", "w").write(str(time.time()))
        time.sleep(2)
`

// A script writes one file of a format that cannot tell that it is whole, and is killed. The next generation
// has what was saved last.
func TestKilledAfterASave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ save, flag, last string }{
		"bytes": {`save("weights.raw", step)`, "--save-files=", "3"},
		"text":  {`open(f"{d}/weights.raw", "w").write(f"\0{step:06d}")`, "--save-files=weights.raw", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			a := saving(p, `
print("began", load("weights.raw"), flush=True)
if load("weights.raw") == 0:
    for step in range(1, 4):
        `+c.save+`
        time.sleep(2)
    os.kill(os.getpid(), 9)
`, c.flag)
			p.ends(a, 0)
			begins(t, a, "0", c.last)
		})
	}
}

// A file that was renamed just before a planned stop is captured, although a signal ends the worker.
func TestSavedBeforeAPlannedStop(t *testing.T) {
	t.Parallel()
	for name, save := range map[string]string{"in place": "def put(step):\n    save(\"weights.raw\", step)\n",
		"fsync and rename": `
def put(step):
    with open(f"{d}/weights.tmp", "wb") as f:
        f.write(b"\0%06d" % step)
        f.flush()
        os.fsync(f.fileno())
    os.replace(f"{d}/weights.tmp", f"{d}/weights.raw")
`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			a := saving(p, save+`
for step in range(1, 5):
    put(step)
    print("saved", step, flush=True)
    time.sleep(1.5 if step < 4 else 1000)
`)
			until(t, "the last save is closed", func() error {
				if !strings.Contains(a.stdout(), "saved 4") {
					return fmt.Errorf("it is not")
				}
				return nil
			})
			if r := p.command("stop", "x"); r.status != 0 {
				t.Fatalf("stop: %s", r.stderr)
			}
			// the first save is not known to be all of one; the last one in place did not rest
			want := map[string]int{"in place": 2, "fsync and rename": 3}[name]
			if n := len(kinds(p.events("x"), "checkpoint_committed")); n != want {
				t.Errorf("%d of %d saves were committed\n%s", n, want, tail(a.stderr()))
			}
		})
	}
}

// The state and the logs of the agent are below the checkpoint directory. Each save is committed,
// and none contains them.
func TestCheckpointDirectoryWithTheStateInIt(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	if err := os.WriteFile(p.path("save.py"), []byte(`import os, sys, time
for step in range(1, 5):
    for _ in range(15):
        print("step", step, flush=True)
        time.sleep(0.1)
    with open("weights.raw", "wb") as f:
        f.write(b"\0%06d" % step)
time.sleep(1.5)
`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := p.run("--node=a", "--np=1", "--job_id=x", "--checkpoint-dir=.", "--state-dir=kept", "--log-dir=said",
		"/usr/bin/python3", "save.py")
	p.ends(a, 0)
	if n := len(kinds(p.events("x"), "checkpoint_committed")); n != 3 {
		t.Errorf("%d of 3 saves were committed\n%s", n, tail(a.stderr()))
	}
	p.must("ckpt", "get", "x", "got", "--state-dir=kept")
	files, err := filepath.Glob(p.path("got", "*"))
	if want := []string{p.path("got", "weights.raw")}; err != nil ||
		!slices.Equal(files, want) {
		t.Errorf("the checkpoint has %v, want %v (%v)", files, want, err)
	}
}
