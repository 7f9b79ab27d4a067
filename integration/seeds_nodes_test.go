package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Every command line for several machines in Paddle's documents, with `elastic run` instead of
// `python -m paddle.distributed.launch`. Each node has its cards, and ranks are in the order of the
// addresses.
func TestPaddleLinesOfSeveralMachines(t *testing.T) {
	t.Parallel()
	const first, second = "127.0.0.4", "127.0.0.5"
	ips := "--ips=" + first + "," + second
	for name, c := range map[string]struct {
		lines [2]string
		cards [2][]string // of each node
		cloud bool        // the addresses come from PaddleCloud's variables
	}{
		"the same cards": {[2]string{"--gpus=0,1 " + ips, "--gpus=0,1 " + ips},
			[2][]string{{"0", "1"}, {"0", "1"}}, false},
		"other cards": {[2]string{"--gpus=0,1 " + ips, "--gpus=2,3 " + ips},
			[2][]string{{"0", "1"}, {"2", "3"}}, false},
		"all cards":   {[2]string{ips, ips}, [2][]string{nil, nil}, false},
		"PaddleCloud": {[2]string{"--gpus=2,3", "--gpus=2,3"}, [2][]string{{"2", "3"}, {"2", "3"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			p.set("ELASTICD_IDLE=2s")
			p.gpus(4)
			p.trainers("train.py")
			at := freeAddress(t, first)
			var nodes []*proc
			for i, host := range []string{first, second} {
				args := append(strings.Fields(c.lines[i]), "--rdzv-endpoint="+at,
					fmt.Sprintf("--log-dir=log%d", i))
				if c.cloud {
					p.set("PADDLE_TRAINERS="+first+","+second, "POD_IP="+host,
						fmt.Sprintf("PADDLE_TRAINER_ID=%d", i), "TRAINER_PORTS_NUM=4")
				} else {
					args = append(args, "--host="+host)
				}
				nodes = append(nodes, p.run(append(args, "train.py", "--batch_size=64")...))
			}
			for i, x := range nodes {
				p.ends(x, 0)
				p.sawCards(i, c.cards[i])
			}
			if out := nodes[0].stdout(); strings.Count(out, "PADDLE_TRAINER_ID=") != 1 ||
				!strings.Contains(out, "PADDLE_TRAINER_ID=0\n") {
				t.Errorf("the output of rank 0 alone is shown:\n%s", out)
			}
		})
	}
}

// sawCards compares what the workers of node i of two were given; without cards they have all four.
func (p *sandbox) sawCards(i int, cards []string) {
	p.t.Helper()
	n, visible := len(cards), strings.Join(cards, ",")
	if n == 0 {
		n, visible = 4, "-" // all of them are visible as they are
	}
	for card := range n {
		p.holds(fmt.Sprintf("card %d of node %d", card, i),
			p.given(fmt.Sprintf("log%d", i), fmt.Sprintf("workerlog.%d", card)), map[string]string{
				"PADDLE_TRAINER_ID": fmt.Sprint(i*n + card), "PADDLE_TRAINERS_NUM": fmt.Sprint(2 * n),
				"PADDLE_RANK_IN_NODE": fmt.Sprint(card),
				"FLAGS_selected_gpus": fmt.Sprint(card), "CUDA_VISIBLE_DEVICES": visible,
				"PADDLE_TRAINERS":         "127.0.0.4,127.0.0.5",
				"PADDLE_CURRENT_ENDPOINT": fmt.Sprintf(`^127\.0\.0\.%d:\d+$`, 4+i),
				"args":                    `['train.py', '--batch_size=64']`,
			})
	}
	lines := strings.Split(strings.TrimSpace(content(p.path(fmt.Sprintf("log%d", i), "endpoints.log"))), "\n")
	if len(lines) != 2*n+1 || lines[0] != "PADDLE_TRAINER_ENDPOINTS: " ||
		!strings.HasPrefix(lines[1], "127.0.0.4:") ||
		!strings.HasPrefix(lines[2*n], "127.0.0.5:") {
		p.t.Errorf("endpoints.log of node %d: %q", i, lines)
	}
}

// The command lines of Paddle's elastic training: flags or variables at the start, a command that
// changes the size, and new nodes that start with the new size.
func TestPaddleElasticLines(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	at := freeAddress(t, "127.0.0.1")
	p.start(filepath.Join(bin, "elasticd"), "--name=s", "--data-dir="+p.path("data"), "--insecure", "--http=",
		"--listen-client-urls=http://"+at, "--advertise-client-urls=http://"+at)
	script := []string{"sh", "-c", `echo "rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM"; exec sleep 1000`}
	line := func(np string) *proc {
		return p.run(append([]string{"--elastic_server=" + at, "--np=" + np, "--job_id=XXXXXX"},
			script...)...)
	}
	nodes := []*proc{line("2")}
	p.set("PADDLE_ELASTIC_SERVER="+at, "PADDLE_ELASTIC_FAULT_TOLERANC_LEVEL=1",
		"PADDLE_ELASTIC_JOB_ID=XXXXXX", "PADDLE_ELASTIC_NP=2", "POD_IP=127.0.0.1")
	nodes = append(nodes, p.run(script...))
	p.running("XXXXXX", 1, 2)
	scaled := p.start(filepath.Join(bin, "elastic"),
		"--elastic_server="+at, "--np=4", "--job_id=XXXXXX", "scale")
	p.says(scaled, "waiting for 2 more nodes (2 of 4)")
	nodes = append(nodes, line("4"), line("4"))
	p.running("XXXXXX", 2, 4)
	p.ends(scaled, 0)
	p.must("stop", "XXXXXX")
	for _, x := range nodes {
		p.ends(x, 93)
	}
}
