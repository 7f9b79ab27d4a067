package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// torchLine is one command line of torchrun's documentation: what follows "torchrun" on each node.
type torchLine struct {
	common  string
	nodes   []string // more flags of each node; none: one node
	program string   // "": seen.py with an argument
	workers int      // of each node
	shown   []string // what the first node shows of its workers, sorted; nil: not compared
	roles   []string // of each node; nil: all have one role
}

// torchLines are the lines of https://docs.pytorch.org/docs/stable/elastic/run.html, and its flags
// for output. PORT is a free port of this machine, LOGS a directory.
func torchLines() map[string]torchLine {
	const elastic = "--nproc-per-node=2 --max-restarts=3 --rdzv-id=7 --rdzv-backend=c10d " +
		"--rdzv-endpoint=127.0.0.1:PORT "
	return map[string]torchLine{
		"single node": {common: "--standalone --nnodes=1 --nproc-per-node=2", workers: 2},
		"stacked": {common: "--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nnodes=1 --nproc-per-node=2",
			workers: 2},
		"fault tolerant": {common: elastic + "--nnodes=2", nodes: []string{"", ""}, workers: 2},
		"elastic": {common: elastic + "--nnodes=1:2 --rdzv-conf=last_call_timeout=20",
			nodes: []string{"", ""}, workers: 2},
		"static": {common: "--nnodes=2 --nproc_per_node=2 --master_addr=127.0.0.1 --master_port=PORT",
			nodes: []string{"--node_rank=0", "--node_rank=1"}, workers: 2},
		"module": {common: "--standalone --nproc-per-node=1 -m", program: "pkg.seen --lr 0.1",
			workers: 1},
		"no python": {common: "--standalone --nproc-per-node=1 --no-python", program: "./seen.sh --lr 0.1",
			workers: 1},
		"run path": {common: "--standalone --nproc-per-node=1 --run-path", program: "seen.py --lr 0.1",
			workers: 1},
		"role": {common: "--standalone --nproc-per-node=2 --role=trainer", workers: 2},
		"role of each node": {common: "--nnodes=3 --nproc_per_node=2 --master_addr=127.0.0.1 --master_port=PORT",
			nodes:   []string{"--node_rank=0 --role=reader", "--node_rank=1", "--node_rank=2 --role=reader"},
			workers: 2, roles: []string{"reader", "default", "reader"}},
		"maps of streams": {common: "--standalone --nproc-per-node=2 --log-dir=LOGS --redirects=3 " +
			"--tee=0:1,1:2",
			workers: 2, shown: []string{"[default0]:out 0", "[default1]:err 1"}},
		"redirects of one": {common: "--standalone --nproc-per-node=2 --log-dir=LOGS --redirects=0:1,1:3 " +
			"--local-ranks-filter=0,1", workers: 2, shown: []string{"err 0"}},
		"tee and a filter": {common: "--standalone --nproc-per-node=2 --log-dir=LOGS -t 3 " +
			"--local_ranks_filter=1",
			workers: 2, shown: []string{"[default1]:err 1", "[default1]:out 1"}},
		"tee with a template": {common: "--standalone --nproc-per-node=2 --log-dir=LOGS --tee=3 " +
			"--local-ranks-filter=1 --log-line-prefix-template=${role_name}/${rank}:", workers: 2,
			shown: []string{"default/1:err 1", "default/1:out 1"}},
		"local rank in a word": {common: "--standalone --nproc-per-node=2",
			program: "seen.py --local_rank=${local_rank}", workers: 2},
	}
}

// Each line with `elastic run` in the place of torchrun gives the workers what torchrun gives them,
// and shows the same. With TORCHRUN=FILE that torchrun runs the lines, too, and must do the same.
func TestTorchrunLines(t *testing.T) {
	t.Parallel()
	launchers := map[string]string{"elastic": filepath.Join(bin, "elastic")}
	if real := os.Getenv("TORCHRUN"); real != "" {
		launchers["torchrun"] = real
	}
	for name, line := range torchLines() {
		for which, program := range launchers {
			t.Run(name+"/"+which, func(t *testing.T) {
				t.Parallel()
				runs(t, program, line)
			})
		}
	}
}

// runs starts the line on each of its nodes, and compares what its workers saw.
func runs(t *testing.T, launcher string, line torchLine) {
	p := newSandbox(t)
	p.set("ELASTICD_IDLE=2s", "OMP_NUM_THREADS=")
	script, err := os.ReadFile(filepath.Join("testdata", "seen.py"))
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"seen.py": string(script), "pkg/seen.py": string(script),
		"pkg/__init__.py": "",
		"seen.sh":         "#!/bin/sh\nexec python3 seen.py \"$@\"\n"} {
		err := os.MkdirAll(filepath.Dir(p.path(file)), 0o755)
		if err == nil {
			err = os.WriteFile(p.path(file), []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if line.program == "" {
		line.program = "seen.py --lr 0.1"
	}
	if line.nodes == nil {
		line.nodes = []string{""}
	}
	_, port, _ := strings.Cut(freeAddress(t, "127.0.0.1"), ":")
	words := strings.NewReplacer("PORT", port, "LOGS", p.path("logs"))
	var started []*proc
	for i, more := range line.nodes {
		args := strings.Fields(words.Replace(line.common + " " + more))
		if strings.HasSuffix(launcher, "elastic") {
			args = append([]string{"run", fmt.Sprintf("--node=n%d", i), "--last-call=20s"}, args...)
		}
		started = append(started, p.start(launcher, append(args, strings.Fields(line.program)...)...))
	}
	for _, x := range started {
		p.ends(x, 0)
	}
	p.saw(line)
	// Elastic shows both streams of workers on stdout: stderr is for its own messages.
	shown := shownLine.FindAllString(started[0].stdout()+started[0].stderr(), -1)
	slices.Sort(shown)
	if line.shown != nil && !slices.Equal(shown, line.shown) {
		t.Errorf("%q is shown, want %q", shown, line.shown)
	}
}

// shownLine is a line of seen.py as a launcher shows it.
var shownLine = regexp.MustCompile(`(?m)^.*\b(?:out|err) [0-9]+$`)

// saw compares what every worker of a line has written.
func (p *sandbox) saw(line torchLine) {
	p.t.Helper()
	size := len(line.nodes) * line.workers
	for rank := range size {
		var seen map[string]string
		if err := json.Unmarshal([]byte(p.read(fmt.Sprintf("seen.%d", rank))), &seen); err != nil {
			p.t.Fatal(err)
		}
		local := rank % line.workers
		want := map[string]string{"RANK": fmt.Sprint(rank), "LOCAL_RANK": fmt.Sprint(local),
			"WORLD_SIZE":       fmt.Sprint(size),
			"LOCAL_WORLD_SIZE": fmt.Sprint(line.workers), "GROUP_RANK": fmt.Sprint(rank / line.workers),
			"GROUP_WORLD_SIZE": fmt.Sprint(len(line.nodes)),
			"ROLE_RANK":        fmt.Sprint(rank), "ROLE_WORLD_SIZE": fmt.Sprint(size), "ROLE_NAME": "default",
			"name": "__main__", "master": "True",
			"TORCHELASTIC_RESTART_COUNT": "0", "args": "--lr 0.1"}
		if line.roles != nil {
			line.counted(rank, want)
		}
		if strings.Contains(line.common, "--role=trainer") {
			want["ROLE_NAME"] = "trainer"
		}
		if strings.Contains(line.program, "${local_rank}") {
			want["args"] = fmt.Sprintf("--local_rank=%d", local)
		}
		if strings.Contains(line.common, "--max-restarts=3") {
			want["TORCHELASTIC_MAX_RESTARTS"] = "3"
		}
		p.holds(fmt.Sprintf("worker %d", rank), seen, want)
	}
}

// counted sets what a worker sees of its role: the workers of its role are counted in rank order.
func (l *torchLine) counted(rank int, want map[string]string) {
	role := l.roles[rank/l.workers]
	before, all := 0, 0
	for r := range len(l.nodes) * l.workers {
		if l.roles[r/l.workers] == role {
			all++
			if r < rank {
				before++
			}
		}
	}
	want["ROLE_NAME"], want["ROLE_RANK"], want["ROLE_WORLD_SIZE"] = role, fmt.Sprint(before), fmt.Sprint(all)
}
