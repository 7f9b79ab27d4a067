package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/worker/output"
)

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			all[e.Name()] = body(read(t, filepath.Join(dir, e.Name())))
		}
	}
	return all
}

func TestLogsOfAnotherRunAreMovedAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("workerlog.0", "from Paddle")
	put("workerlog.0.1", "rotated")
	put("workerlog.10.err", "stderr")
	put("workerlog.1", "")
	put("endpoints.log", "endpoints")
	for _, step := range []struct {
		run  string
		want map[string]string
	}{
		{"a 1", map[string]string{"workerlog.0": "one\n", "workerlog.0.1": "rotated",
			"workerlog.0.2":      "from Paddle",
			"workerlog.10.err.1": "stderr", "workerlog.1": "", "endpoints.log": "endpoints"}},
		{"a 1", map[string]string{"workerlog.0": "one\none\n", "workerlog.0.1": "rotated",
			"workerlog.0.2":      "from Paddle",
			"workerlog.10.err.1": "stderr", "workerlog.1": "", "endpoints.log": "endpoints"}},
		{"a 2", map[string]string{"workerlog.0": "one\n", "workerlog.0.1": "rotated",
			"workerlog.0.2": "from Paddle", "workerlog.0.3": "one\none\n",
			"workerlog.10.err.1": "stderr", "workerlog.1": "", "endpoints.log": "endpoints"}},
	} {
		s := logged(t, 1, `echo one`, output.Options{Dir: dir, Run: step.run})
		runToEnd(t, s)
		if err := s.Logs.Close(deadline(t)); err != nil {
			t.Fatal(err)
		}
		got := files(t, dir)
		for name, text := range step.want {
			if !strings.HasSuffix(got[name], text) ||
				strings.Count(got[name], "one") != strings.Count(text, "one") {
				t.Errorf("run %s: %s is %q, want %q", step.run, name, got[name], text)
			}
		}
		if len(got) != len(step.want) {
			t.Errorf("run %s: %v", step.run, got)
		}
	}
}

// A job that was made again in a new store goes on in its own logs.
func TestAdoptedLogsStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := openLogs(t, output.Options{Dir: dir, Run: "a 1"})
	if err := os.WriteFile(first.Path(0), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.Adopt("b 1"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if second := openLogs(t, output.Options{Dir: dir, Run: "b 1"}); read(t, second.Path(0)) != "text" {
		t.Error("the log of the same job was moved")
	}
}

func TestStderrApart(t *testing.T) {
	t.Parallel()
	var console bytes.Buffer
	s := logged(t, 1, `echo out; echo err >&2`,
		output.Options{Apart: true, Console: &console, Show: func(int) output.Std { return output.Both }})
	g := begin(t, s)
	if e := exitsOf(t, g)[0]; string(e.Tail) != "err\n" {
		t.Errorf("tail %q", e.Tail)
	}
	<-g.Done()
	if out, err := body(read(t, s.Logs.Path(0))), body(read(t, s.Logs.ErrPath(0))); out != "out\n" ||
		err != "err\n" {
		t.Errorf("stdout %q, stderr %q", out, err)
	}
	s.Logs.Close(deadline(t))
	if got := console.String(); got != "out\nerr\n" && got != "err\nout\n" {
		t.Errorf("console %q", got)
	}
}

// If several workers share a terminal, each line has a prefix with the rank. The output of a single
// worker is unchanged.
func TestPrefix(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown []output.Std
		want  []string
	}{
		"two": {[]output.Std{output.Both, output.Both}, []string{"[rank4]: a", "[rank4]: b", "[rank5]: a",
			"[rank5]: b"}},
		"one": {[]output.Std{output.None, output.Both}, []string{"a", "b"}},
	} {
		var console bytes.Buffer
		s := logged(t, 2, `echo a; printf b`,
			output.Options{Console: &console, Show: func(i int) output.Std { return c.shown[i] },
				Prefix: func(_, rank int) string { return "[rank" + string(rune('0'+rank)) + "]: " }})
		s.Ranks = []int{4, 5}
		runToEnd(t, s)
		s.Logs.Close(deadline(t))
		got := strings.Split(strings.TrimSuffix(console.String(), "\n"), "\n")
		for _, line := range c.want {
			if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+line+"\n") {
				t.Errorf("%s: %q is not in %q", name, line, got)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Last lines of a worker that elastic ended, as Paddle's about SIGTERM, mislead a reader of its
// log.
func TestLogSaysThatElasticEndedTheWorker(t *testing.T) {
	t.Parallel()
	asked := `was asked to end by elastic \(SIGTERM\), and ended`
	for _, c := range []struct{ script, says string }{
		{`trap 'echo last; exit 15' TERM; echo up; while :; do sleep 0.01; done`,
			`last\n---- elastic: rank 7 was ended by elastic \(exit code 15\)`},
		{`trap 'echo last; exit 143' TERM; echo up; while :; do sleep 0.01; done`,
			`last\n---- elastic: rank 7 ` + asked},
		{`echo up; exec sleep 1000`, `up\n---- elastic: rank 7 ` + asked},
	} {
		s := shell(t, 1, c.script)
		s.Ranks = []int{7}
		g := begin(t, s)
		said(t, s.Logs, 0, "up")
		if err := g.Stop(deadline(t), 20*time.Second); err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(c.says + `; elastic events says why, \S+ ----\n$`)
		if got := read(t, s.Logs.Path(0)); !want.MatchString(got) {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

func TestErrorFileIsReported(t *testing.T) {
	t.Parallel()
	s := shell(t, 2, `test $i = 1 || exit 0; printf '{"message":"no data"}' >"$dir/1/error.json"; exit 3`)
	for i := range s.Env {
		s.Env[i] = append(s.Env[i], "dir="+s.RunDir)
	}
	exits := exitsOf(t, begin(t, s))
	if got := string(exits[1].ErrorFile); got != `{"message":"no data"}` {
		t.Errorf("%q", got)
	}
	if exits[0].ErrorFile != nil {
		t.Errorf("%q", exits[0].ErrorFile)
	}
}
