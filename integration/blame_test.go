package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One of eight workers ends, in several ways, and the seven others fail because of broken
// connections. Each time the first one is named as the cause on every node, in status and in
// events, with its last output. COUNT repeats the test.
func TestTheRightRankIsBlamed(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join("testdata", "mesh.py"))
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		how, record string
		code        int
		line, says  string // below the ABORT line, and somewhere below that
	}{
		{"exit", "", 3, "exit code 3", ""},
		{"sysexit", "", 3, "exit code 3", "no data left"},
		{"raise", "", 1, "exit code 1", "ValueError: bad batch"},
		{"raise", "1", 1, "exit code 1", "ValueError: bad batch"},
		{"SIGSEGV", "1", 139, "ended by SIGSEGV", ""},
		{"SIGKILL", "1", 137, "ended by SIGKILL", ""},
		{"SIGABRT", "", 134, "ended by SIGABRT", ""},
	} {
		t.Run(end.how+end.record, func(t *testing.T) {
			for i := range soak(t) {
				bad := (i*3 + 5) % 8
				p := newSandbox(t)
				p.set(fmt.Sprintf("BAD=%d", bad), "HOW="+end.how, "RECORD="+end.record)
				args := []string{"--np=2", "--nproc-per-node=4", "--job-id=x", "--max-restarts=0",
					"--console=none", "python3", script}
				a, b := p.run(append([]string{"--node=a"}, args...)...),
					p.run(append([]string{"--node=b"}, args...)...)
				p.ends(a, end.code)
				p.ends(b, end.code)
				for _, x := range []*proc{a, b} {
					said := x.stderr()
					abort := fmt.Sprintf("ABORT!!! Out of all 8 trainers, the trainer process with "+
						"rank=[%d] was aborted. Please check its log.\n", bad)
					if strings.Count(said, "ABORT") != 1 || !strings.Contains(said, abort) {
						t.Errorf("rank %d failed:\n%s", bad, said)
					}
					if !strings.Contains(said, fmt.Sprintf("elastic:   rank %d, node ", bad)) ||
						!strings.Contains(said, "generation 1: "+end.line+"; log ") ||
						!strings.Contains(said, end.says) {
						t.Errorf("rank %d ended with %q, %q:\n%s", bad, end.line, end.says, said)
					}
				}
				st, err := p.status("x")
				if err != nil {
					t.Fatal(err)
				}
				if st.Exit == nil || st.Exit.Rank == nil || *st.Exit.Rank != bad || st.Exit.Code != end.code {
					t.Errorf("exit: %+v", st.Exit)
				}
				failures := kinds(p.events("x"), "worker_failed")
				if len(failures) != 1 ||
					!strings.Contains(failures[0].Text, fmt.Sprintf("rank %d on ", bad)) ||
					!strings.Contains(failures[0].Text, end.says) {
					t.Errorf("events: %+v", failures)
				}
			}
		})
	}
}

// A worker runs under torch's own launcher. Its traceback is found in the error file of @record, or
// in the output if there is none.
func TestTracebackOfTorch(t *testing.T) {
	t.Parallel()
	for name, decorator := range map[string]string{"record": "@record", "plain": ""} {
		t.Run(name, func(t *testing.T) {
			p := newSandbox(t)
			script := "from torch.distributed.elastic.multiprocessing.errors import record\n" + decorator +
				"\ndef main():\n    raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 " +
				"GiB')\nmain()\n"
			if err := os.WriteFile(p.path("t.py"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			x := p.run("--job-id=x", "--node=a", "--max-restarts=0", "--console=none", "/usr/bin/python3", "t.py")
			p.ends(x, 1)
			if said := x.stderr(); !strings.Contains(said, `elastic:     File "t.py", line 4, in main`) &&
				!strings.Contains(said, "t.py\", line 4, in main") ||
				!strings.Contains(said, "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB") {
				t.Errorf("%s", said)
			}
			if got := p.must("status", "x"); !strings.Contains(got,
				"rank 0 on a ended with exit code 1: RuntimeError: CUDA out of memory.") {
				t.Errorf("%s", got)
			}
		})
	}
}
