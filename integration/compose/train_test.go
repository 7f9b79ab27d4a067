package compose

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tolerance is how far the loss of a run with faults may be from that of an
// undisturbed run. With fixed-batch only the order of additions differs (1e-9),
// and train prints six digits.
const tolerance = 1.5e-6

var (
	done = regexp.MustCompile(
		`(?m)^done: (\d+) steps, (\d+) samples = [\d.]+ epochs, every sample once an epoch; ` +
			`(.*); loss ([\d.]+), accuracy .*`)
	stretch = regexp.MustCompile(`generation (\d+): (\d+) steps at world (\d+)`)
)

// contribution is the part of the steps that one generation made.
type contribution struct{ world, steps int }

// outcome is the last line of train.
type outcome struct {
	steps, samples int
	loss           float64
	generations    map[int]contribution
	line           string
}

func read(t *testing.T, said string) outcome {
	t.Helper()
	m := done.FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("train did not say done: %s", tail(said))
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	loss, err := strconv.ParseFloat(m[4], 64)
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{steps: number(m[1]), samples: number(m[2]), loss: loss, line: m[0],
		generations: map[int]contribution{}}
	sum := 0
	for _, s := range stretch.FindAllStringSubmatch(m[3], -1) {
		o.generations[number(s[1])] = contribution{world: number(s[3]), steps: number(s[2])}
		sum += number(s[2])
	}
	if sum != o.steps {
		t.Errorf("the generations did %d steps: %s", sum, m[0])
	}
	return o
}

// undisturbed is the outcome of the same training without containers, alone, and without a fault.
func undisturbed(t *testing.T, steps int) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "elastic-demo"), fmt.Sprint("--steps=", steps),
		"--batch-size=256", "--lr=0.1", "--pace=0")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("train alone: %v\n%s", err, out)
	}
	return read(t, string(out))
}

// ends waits until the job is done and its nodes have left with 0, and holds
// the result to that of the same training undisturbed: worlds are the sizes of
// generations 1, 2…, each of which must have done a part of the result.
func (c *cluster) ends(steps int, worlds ...int) outcome {
	c.t.Helper()
	var st status
	until(c.t, 3*time.Minute, "the job is done", func() error {
		st = c.reaches("any state", func(status) error { return nil })
		if st.State == "failed" || st.State == "stopped" {
			c.t.Fatalf("the job is %s", st)
		}
		if st.State != "done" {
			return fmt.Errorf("it is %s", st)
		}
		return nil
	})
	for _, w := range st.World {
		id := c.container(w.Node)
		c.says(id, "elastic: job "+job+" done: ")
		if status := c.docker("wait", id); status != "0" {
			c.t.Errorf("node %s of the last world ended with %s, want 0", w.Node, status)
		}
	}
	said, err := c.logs(c.t.Context(), c.container(st.at(0)))
	if err != nil {
		c.t.Fatal(err)
	}
	got, want := read(c.t, said), undisturbed(c.t, steps)
	c.t.Log(strings.TrimSpace(got.line))
	if got.steps != want.steps || got.samples != want.samples {
		c.t.Errorf("%d steps, %d samples; undisturbed %d, %d", got.steps, got.samples, want.steps, want.samples)
	}
	if d := math.Abs(got.loss - want.loss); d > tolerance {
		c.t.Errorf("loss %f, undisturbed %f", got.loss, want.loss)
	}
	for i, size := range worlds {
		if got.generations[i+1].world != size {
			c.t.Errorf("generation %d at world %d is not part of the result: %s", i+1, size, got.line)
		}
	}
	return got
}
