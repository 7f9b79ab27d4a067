package docs

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/cli"
	"github.com/elasticd/elastic/internal/cli/command"
)

// torchrun are the flags of torchrun 2.15: TestFlagsOfRealTorchrun compares them with its help.
const torchrun = `
--nnodes --nproc-per-node --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --standalone --max-restarts
--monitor-interval --start-method --event-log-handler --role --module --no-python --run-path --log-dir
--redirects --tee --log-line-prefix-template --local-ranks-filter --duplicate-stdout-filters
--duplicate-stderr-filters --node-rank --master-addr --master-port --local-addr --logs-specs --numa-binding
--signals-to-handle --shutdown-timeout --virtual-local-rank --print-completion`

// Each flag of torchrun has a row, and elastic takes or refuses it as the row says: with --help
// nothing is run.
func TestTorchrunFlags(t *testing.T) {
	doc, _, _ := strings.Cut(read(t, "docs/MIGRATING.md"), "\n## What stays different\n")
	for _, f := range strings.Fields(torchrun) {
		row := regexp.MustCompile("(?m)^\\|[^|]* `" + f + "`[^|]* \\| ([a-z ]+) \\|").FindStringSubmatch(doc)
		if row == nil {
			t.Errorf("%s has no row in MIGRATING.md", f)
			continue
		}
		for _, spelled := range []string{f, "--" + strings.ReplaceAll(f[2:], "-", "_")} {
			var out, words bytes.Buffer
			app := command.App{Stdout: &out, Stderr: &words, Getenv: func(string) string { return "" }}
			status := cli.Main(app, []string{"run", spelled + "=1", "--help"})
			if taken := status == 0; taken == (row[1] == "refused") {
				t.Errorf("%s: MIGRATING.md says %q, and elastic run ends with %d: %s",
					spelled, row[1], status, &words)
			}
		}
	}
}

// With TORCHRUN=FILE the list above is that of a real torchrun, else of the list itself.
func TestFlagsOfRealTorchrun(t *testing.T) {
	want := strings.Fields(torchrun)
	slices.Sort(want)
	got := slices.Clone(want)
	if file := os.Getenv("TORCHRUN"); file != "" {
		help, err := exec.Command(file, "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, flag := range regexp.MustCompile(`(?m)^  (?:-[a-z](?: [A-Z]+)?, )?(--[a-z][a-z-]*)`).
			FindAllStringSubmatch(string(help), -1) {
			got = append(got, flag[1])
		}
		slices.Sort(got)
		got = slices.DeleteFunc(got, func(f string) bool { return f == "--help" })
	}
	if !slices.Equal(got, want) {
		t.Errorf("torchrun has %q, MIGRATING.md %q", got, want)
	}
}

// Each difference that stays has one row.
func TestDifferences(t *testing.T) {
	doc := read(t, "docs/MIGRATING.md")
	for _, what := range []string{"Ctrl-C", "SIGTERM", "a failed worker", "stderr of workers", "console",
		"stdin", "`$$` in an argument", "port of `--master-port`", "`MASTER_PORT`",
		"`TORCHELASTIC_USE_AGENT_STORE`", "`TORCH_NCCL_ASYNC_ERROR_HANDLING`", "a program without `.py`",
		"another `--nproc-per-node` on a node", "a refused line",
		"an id of other letters than `a-z A-Z 0-9 . _ -`, or longer than 64",
		"`--rdzv-id` while its job runs", "`--standalone --nnodes=2`", "`TORCHELASTIC_ENABLE_FILE_TIMER`",
		"`--virtual-local-rank`, fewer devices than workers",
		"a Paddle variable and a flag that differ", "`PADDLE_SORT_IP`, `PADDLE_ELASTIC_LEVEL` and their like"} {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(what) + ` \| [^|]+ \| [^|]+ \|$`)
		if n := len(row.FindAllString(doc, -1)); n != 1 {
			t.Errorf("%s has %d rows", what, n)
		}
	}
}
