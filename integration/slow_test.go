package integration

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/outside"
)

// A rank that takes 30 ms more of each step than the others is named, and none is where all ranks are
// alike. Training goes on. TORCH is a python with torch 2.
func TestASlowRankIsNamed(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join("testdata", "slow.py"))
	if err != nil {
		t.Fatal(err)
	}
	python := cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3")
	for _, slow := range []int{2, -1} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			p.set(fmt.Sprintf("SLOW=%d", slow), "OMP_NUM_THREADS=1")
			for _, node := range []string{"a", "b", "c"} {
				p.run("--node="+node, "--np=3", "--job-id=x", "--warm=off", "--console=none",
					"--max-restarts=0", python, script)
			}
			p.running("x", 1, 3)
			within(t, 2*limit, "every rank measures its steps", func() error {
				all, err := filepath.Glob(filepath.Join(p.dir, "state/*/*/nodes/*/jobs/x/run/1/0/progress.jsonl"))
				for _, path := range all {
					text, err := os.ReadFile(path)
					if err != nil || !strings.Contains(string(text), `"own"`) {
						return fmt.Errorf("%s: %w", path, err)
					}
				}
				if len(all) != 3 {
					return fmt.Errorf("%d ranks: %w", len(all), err)
				}
				return nil
			})
			named := func() error {
				told := kinds(p.events("x"), "slow_rank")
				if len(told) != 1 || !strings.HasPrefix(told[0].Text, "rank 2 on c is slow") {
					return fmt.Errorf("%+v", told)
				}
				if status := p.must("status", "x"); !strings.Contains(status, told[0].Text[:19]) {
					return fmt.Errorf("status:\n%s", status)
				}
				t.Log(told[0].Text)
				return nil
			}
			if slow >= 0 {
				outside.Poll{What: "the slow rank is named", Every: time.Second, Limit: 2 * limit}.Until(t, named)
				return
			}
			outside.Poll{What: "no rank is named", Every: 5 * time.Second, Limit: 40 * time.Second}.Holds(t, func() error {
				if told := kinds(p.events("x"), "slow_rank"); len(told) != 0 {
					return fmt.Errorf("%+v", told)
				}
				return nil
			})
		})
	}
}
