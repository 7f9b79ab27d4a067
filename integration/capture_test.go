package integration

import (
	"fmt"
	"os"
	"regexp"
	"testing"
)

// saving runs one node with a Python script of these lines; save(name, step) writes a file in
// place.
func saving(p *place, body string) *proc {
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
	return p.run("--node=a", "--np=1", "--job_id=x", "--console=all", "--log-dir=log-a", "/usr/bin/python3",
		p.path("save.py"))
}

// began is what the script of a generation found when it began.
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

// A file that is written over in place, below a directory with a digit in its name: each save is
// committed.
func TestEachSaveInADirectoryWithADigit(t *testing.T) {
	for _, name := range []string{"resnet50/last.pt", "exp1/ckpt/last.pt"} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			a := saving(p, fmt.Sprintf(`
name = %q
step = load(name)
print("began", step, flush=True)
if step == 0:
    for step in range(1, 7):
        save(name, step)
        time.sleep(1.5)
    sys.exit(7)
`, name))
			p.ends(a, 0)
			begins(t, a, "0", "6")
			if n := len(kinds(p.events("x"), "checkpoint_committed")); n != 6 {
				t.Errorf("%d of 6 saves were committed", n)
			}
		})
	}
}

// Model and optimizer are renamed to their names two seconds apart, and the worker is killed in
// between: the next generation has both of the save before.
func TestKilledBetweenTwoRenames(t *testing.T) {
	p := newPlace(t)
	a := saving(p, `
print("began", load("model.raw"), load("optimizer.raw"), flush=True)
if load("model.raw") == 0:
    for step in range(1, 4):
        save("model.tmp", step)
        os.replace(f"{d}/model.tmp", f"{d}/model.raw")
        time.sleep(2)
        if step == 3:
            os.kill(os.getpid(), 9)
        save("optimizer.tmp", step)
        os.replace(f"{d}/optimizer.tmp", f"{d}/optimizer.raw")
        time.sleep(2)
`)
	p.ends(a, 0)
	begins(t, a, "0 0", "2 2")
}

// What was closed before a planned stop is taken, though a signal ends the worker.
func TestSavedBeforeAPlannedStop(t *testing.T) {
	p := newPlace(t)
	a := saving(p, `
step = load("weights.raw")
print("began", step, flush=True)
while step < 3:
    step += 1
    save("weights.raw", step)
    print("saved", step, flush=True)
    time.sleep(1.5)
if load("stopped") == 0:
    save("weights.raw", 4)
    print("saved", 4, flush=True)
time.sleep(1000)
`)
	until(t, "the last save is closed", func() error {
		if !regexp.MustCompile(`saved 4`).MatchString(a.stdout()) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	if r := p.command("stop", "x"); r.status != 0 {
		t.Fatalf("stop: %s", r.stderr)
	}
	if n := len(kinds(p.events("x"), "checkpoint_committed")); n != 4 {
		t.Errorf("%d of 4 saves were committed\n%s", n, tail(a.stderr()))
	}
}
