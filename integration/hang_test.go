package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A job hangs because of one rank, in the ways in which ranks do. The right one is named, its stack is in the
// evidence, and the job is through after one restart. COUNT repeats it.
func TestHangsAreFound(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("testdata", "hang.py"))
	if err != nil {
		t.Fatal(err)
	}
	for how, says := range map[string]string{
		"skip": "barrier (", "load": "load (", "lock": "lock (", "stop": "is stopped", "save": "save (",
	} {
		t.Run(how, func(t *testing.T) {
			for i := range soak(t) {
				bad := (i + 1) % 4
				p := newPlace(t)
				p.set(fmt.Sprintf("BAD=%d", bad), "HOW="+how)
				args := []string{"--np=2", "--nproc-per-node=2", "--job-id=x", "--max-restarts=1", "--hang-timeout=3s", "--console=none", "/usr/bin/python3", script}
				a, b := p.run(append([]string{"--node=a"}, args...)...), p.run(append([]string{"--node=b"}, args...)...)
				p.ends(a, 0)
				p.ends(b, 0)
				all := p.events("x")
				failures := kinds(all, "worker_failed")
				if len(failures) != 1 {
					t.Fatalf("rank %d: %+v", bad, failures)
				}
				text := failures[0].Text
				if !strings.HasPrefix(text, fmt.Sprintf("rank %d on ", bad)) || !strings.Contains(text, "hangs: no rank showed a sign of life for 3s") || !strings.Contains(text, says) {
					t.Errorf("rank %d, %s: %s", bad, how, text)
				}
				began, found := kinds(all, "world_running")[0].Time, failures[0].Time
				from, err1 := time.Parse(time.RFC3339, began)
				to, err2 := time.Parse(time.RFC3339, found)
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				t.Logf("rank %d, %s: found %s after the start: %s", bad, how, to.Sub(from), text)
				dirs, _ := filepath.Glob(p.path("log*", "hang-1"))
				more, _ := filepath.Glob(p.path("log", "*", "hang-1"))
				if dirs = append(dirs, more...); len(dirs) != 1 {
					t.Fatalf("evidence in %v", dirs)
				}
				if reports, _ := filepath.Glob(filepath.Join(dirs[0], "rank-*.txt")); len(reports) != 4 {
					t.Errorf("evidence: %v", reports)
				}
			}
		})
	}
}

// Ranks that wait for one that computes or saves, without a word, do not hang.
func TestSlowWorkIsNoHang(t *testing.T) {
	for name, work := range map[string]string{
		"evaluation": "t = time.time()\nwhile time.time() < t + 6: pass",
		"save":       "f = open('save', 'wb')\nfor _ in range(60): f.write(b'x' * 1000000); f.flush(); os.fsync(f.fileno()); time.sleep(0.1)",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			script := "import os, time\nif os.environ['RANK'] == '0':\n    " + strings.ReplaceAll(work, "\n", "\n    ") +
				"\n    open('through', 'w')\nwhile not os.path.exists('through'): time.sleep(0.2)\n"
			if err := os.WriteFile(p.path("t.py"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			x := p.run("--nproc-per-node=2", "--job-id=x", "--node=a", "--hang-timeout=2s", "--max-restarts=0", "/usr/bin/python3", "t.py")
			p.ends(x, 0)
			if failures := kinds(p.events("x"), "worker_failed"); len(failures) != 0 {
				t.Errorf("%+v", failures)
			}
		})
	}
}
