package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/outside"
)

// An example of the training function, through the story, with the programs of this checkout; TestIntegrations
// has all of them.
func TestExampleInPlace(t *testing.T) {
	t.Parallel()
	s := ofTheTrainingFunction()[0]
	s.python = torch()
	s.play(t)
}

func ofTheTrainingFunction() []story {
	return []story{
		{example: "inplace/train.py", flags: fixedBatch(), tolerance: 1e-3}, // bfloat16
		{example: "resnet/after.py", flags: fixedBatch(), args: []string{"--epochs=6"}, tolerance: 1e-9},
		{example: "llm/train.py", flags: fixedBatch(), pause: "0.6", tolerance: 1e-9},
	}
}

// torch is an interpreter that has torch.
func torch() string {
	if python := os.Getenv("TORCH"); python != "" {
		return python
	}
	return "/usr/bin/python3"
}

func fixedBatch() []string { return []string{"--batch-size=24", "--scaling=fixed-batch"} }

// story is an example that runs alone, and then under a job whose nodes change. The job makes the steps of
// the undisturbed run and ends with its loss.
type story struct {
	example   string   // its folder and file below examples
	python    string   // the interpreter
	wheel     bool     // the programs and the helper are those that the wheel put beside the interpreter
	flags     []string // of elastic run
	args      []string // of the example
	pause     string   // --pause of the example under the job; "": 0.4
	tolerance float64
}

// play kills one of three nodes, shrinks the job to one, lets it grow to three with a new node, stops it, and
// starts it again.
func (s story) play(t *testing.T) {
	steps, loss := s.undisturbed(t)
	p := s.sandbox(t)
	nodes := map[string]*proc{}
	join := func(names ...string) {
		for _, name := range names {
			line := append([]string{"--np=1:3", "--job-id=x", "--node=" + name, "--checkpoint-dir=ckpt-" + name,
				"--log-dir=log-" + name, "--last-call=1s", "--warm=off"}, s.flags...)
			line = append(line, s.python, filepath.Base(s.example), "--pause="+cmp.Or(s.pause, "0.4"))
			nodes[name] = p.run(append(line, s.args...)...)
		}
	}
	c := changes{sandbox: p}
	c.make("start", 3, func() { join("a", "b", "c") })
	c.make("kill", 2, func() {
		p.kill(nodes["b"])
		<-nodes["b"].done
	})
	c.make("shrink", 1, func() { p.must("scale", "x", "--np=1", "--detach") })
	c.make("grow", 3, func() {
		join("d")
		p.must("scale", "x", "--np=3", "--when-ready", "--detach")
	})
	c.saves()
	p.must("stop", "x")
	delete(nodes, "b")
	for _, x := range nodes {
		p.through(x)
	}
	c.make("start again", 0, func() { join("a", "c", "d") })
	var said string
	for _, x := range nodes {
		p.through(x)
		said += x.stdout()
	}
	did, got := ending(t, said)
	t.Logf("| %s |%s %.12g | %.12g |", filepath.Dir(s.example), c.row(), got, loss)
	if did != steps || math.Abs(got-loss) > s.tolerance {
		t.Errorf("the job made %d steps to a loss of %.12g; undisturbed %d steps, %.12g", did, got, steps, loss)
	}
}

// sandbox has the example in the working directory.
func (s story) sandbox(t *testing.T) *sandbox {
	t.Helper()
	p := newSandbox(t)
	if s.wheel {
		p.installed(s.python)
	}
	p.example(filepath.Dir(s.example))
	return p
}

// installed makes the programs of a sandbox those that the wheel put beside a Python. Its processes find
// neither Go nor this repository.
func (p *sandbox) installed(python string) {
	p.t.Helper()
	p.bin = filepath.Dir(python)
	for _, program := range []string{"python", "elastic", "elasticd"} {
		if _, err := os.Stat(filepath.Join(p.bin, program)); err != nil {
			p.t.Fatalf("make frameworks installs the wheel: %v", err)
		}
	}
	p.set("PATH=" + p.bin + ":/usr/bin:/bin")
}

// example copies the files of an example into the working directory.
func (p *sandbox) example(name string) {
	p.t.Helper()
	if err := os.CopyFS(p.path(), os.DirFS(filepath.Join("..", "examples", name))); err != nil {
		p.t.Fatal(err)
	}
}

// undisturbed runs the script without Elastic.
func (s story) undisturbed(t *testing.T) (steps int, loss float64) {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	alone := s.sandbox(t)
	alone.set("RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port, "ELASTIC_BATCH_SIZE=24",
		"ELASTIC_GLOBAL_BATCH_SIZE=24")
	if !s.wheel {
		helper, err := filepath.Abs("../python")
		if err != nil {
			t.Fatal(err)
		}
		alone.set("PYTHONPATH="+helper, "PYTHONDONTWRITEBYTECODE=1")
	}
	x := alone.start(s.python, append([]string{filepath.Base(s.example)}, s.args...)...)
	alone.through(x)
	return ending(t, x.stdout()+x.stderr())
}

// changes are the changes of the world of job x.
type changes struct {
	*sandbox
	now  status // after the newest change
	made []change
}

type change struct {
	what         string
	at           time.Time
	before, then int // generations
}

// make changes the world after the current one has saved, and waits until one of this size runs; 0: of any.
func (c *changes) make(what string, size int, act func()) {
	c.t.Helper()
	if c.now.State == "running" {
		c.saves()
	}
	made := change{what: what, at: time.Now(), before: c.now.Generation}
	act()
	c.patient(fmt.Sprintf("%s: %d workers train", what, size), func() (err error) {
		switch c.now, err = c.status("x"); {
		case err != nil:
			return err
		case c.now.State != "running" || c.now.Generation <= made.before || size != 0 && c.now.WorldSize != size:
			return fmt.Errorf("it is %s", c.now)
		}
		return nil
	})
	made.then = c.now.Generation
	c.made = append(c.made, made)
}

// saves waits until a save of the current world is committed.
func (c *changes) saves() {
	c.t.Helper()
	c.patient("a save is committed", func() error {
		for _, e := range kinds(c.events("x"), "checkpoint_committed") {
			if e.Generation >= c.now.Generation {
				return nil
			}
		}
		return fmt.Errorf("it is not")
	})
}

// row has for each change the steps that it lost, and the seconds until the next step ended.
func (c *changes) row() (row string) {
	c.t.Helper()
	var account struct {
		Generations []struct {
			Generation int
			Lost       int `json:"lost_steps"`
		}
	}
	if err := json.Unmarshal([]byte(c.must("goodput", "x", "-o", "json")), &account); err != nil {
		c.t.Fatal(err)
	}
	first, runs := map[int]time.Time{}, 0 // the first step of each generation
	for _, e := range c.events("x") {
		if at, err := time.Parse(time.RFC3339Nano, e.FirstStepAt); err == nil {
			first[runs] = at
		}
		if e.Kind == "world_running" {
			runs = e.Generation
		}
	}
	for _, made := range c.made {
		lost := 0
		for _, g := range account.Generations {
			if g.Generation >= made.before && g.Generation < made.then {
				lost += g.Lost
			}
		}
		row += fmt.Sprintf(" %s: %d", made.what, lost)
		if at := first[made.then]; !at.IsZero() { // else the example reports no end of a first step
			row += fmt.Sprintf(", %.1f s", at.Sub(made.at).Seconds())
		}
		row += " |"
	}
	return row
}

// patient waits for what takes as long as training takes on a busy machine.
func (p *sandbox) patient(what string, f func() error) {
	p.t.Helper()
	outside.Poll{What: what, Every: 100 * time.Millisecond, Limit: 4 * time.Minute}.Until(p.t, f)
}

// through waits for the end of a node.
func (p *sandbox) through(x *proc) {
	p.t.Helper()
	p.patient(x.String()+" ends", func() error {
		if _, ended := x.ended(); !ended {
			return fmt.Errorf("it runs; it said last: %s", lastLine(x.stderr()))
		}
		return nil
	})
}

// ending finds what rank 0 prints last.
func ending(t *testing.T, said string) (int, float64) {
	t.Helper()
	m := regexp.MustCompile(`(?m)(\d+) steps: loss ([0-9.e+-]+)`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("no end of training:\n%s", tail(said))
	}
	steps, err1 := strconv.Atoi(m[1])
	loss, err2 := strconv.ParseFloat(m[2], 64)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return steps, loss
}
