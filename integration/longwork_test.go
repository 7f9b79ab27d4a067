package integration

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/outside"
)

// Long work of a healthy job is no hang: a look may say what the ranks do, the next step withdraws
// it, and the record of no machine has anything. Work that can be seen is named as work. COUNT is the
// number of minutes, with the usual limit of 30 s.
func TestLongWorkIsNoHang(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join("testdata", "longwork.py"))
	if err != nil {
		t.Fatal(err)
	}
	p := newSandbox(t)
	least, works := "--hang-look=2s", endure(t, 8*time.Second, time.Duration(soak(t))*time.Minute)
	if soak(t) > 1 {
		least = "--hang-look=30s"
	}
	p.set(fmt.Sprintf("SECONDS=%d", int(works.Seconds())), "OMP_NUM_THREADS=1")
	seen := map[string]string{"validation": "at work", "checkpoint": "at work", "compiler": "at work",
		"download": "at work", "epoch": "no rank stands out", "prompt": "cmdloop (", "attached": "a debugger"}
	jobs := map[string]*proc{}
	for work := range seen {
		p.set("WORK=" + work)
		jobs[work] = p.run("--node="+work, "--nproc-per-node=2", "--job-id="+work, least, "--warm=off",
			"--console=none", "--max-restarts=0", "/usr/bin/python3", script)
	}
	outside.Poll{What: "the work is done", Every: works / 50, Limit: works + 6*limit}.Until(t, func() error {
		for work := range seen {
			if st, err := p.status(work); err != nil || st.State != "done" && st.State != "failed" {
				return errors.Join(err, fmt.Errorf("%s: %s", work, st))
			}
		}
		return nil
	})
	for work, says := range seen {
		p.ends(jobs[work], 0)
		all := p.events(work)
		stalled, over := kinds(all, "stalled"), kinds(all, "stall_over")
		if len(kinds(all, "worker_failed")) != 0 || len(over) != 1 || len(stalled) == 0 {
			t.Errorf("%s: %+v", work, all)
			continue
		}
		// A busy machine gives a worker little to be seen by in the first look.
		if last := stalled[len(stalled)-1]; soak(t) > 1 && !strings.Contains(last.Text, says) {
			t.Errorf("%s: %+v", work, stalled)
		}
		if text := p.must("explain", work); strings.Contains(text, "no step for") {
			t.Errorf("%s: a verdict stands:\n%s", work, text)
		}
		t.Logf("%s: %d looks told: %s", work, len(stalled), stalled[0].Text)
	}
	if record := p.must("nodes", "--all"); strings.Contains(record, "hung") {
		t.Errorf("a machine is charged:\n%s", record)
	}
}
