//go:build frameworks

package integration

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// waitsForServers comes before the script serving: Paddle's launcher starts trainers at once.
const waitsForServers = `import os, socket, time
if os.environ["TRAINING_ROLE"] == "TRAINER":
    for address in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(","):
        host, port = address.split(":")
        while socket.socket().connect_ex((host, int(port))):
            time.sleep(.05)
`

var (
	ofPaddle = regexp.MustCompile(
		`^(PADDLE_|FLAGS_selected_|STAGE_|HETER_|TRAINING_ROLE$|POD_IP$|CUDA_V|XPU_V)`)
	anyPort   = regexp.MustCompile(`\b\d{4,5}\b`)
	saidOfRun = regexp.MustCompile(
		`] (Local .* processes|Run parameter-sever mode\. pserver arguments:\[.*\]|all .* exit|all .* are killed)`)
)

// The command lines of Paddle's documents for parameter servers and heter workers, with Paddle's
// own launcher of version 2.6.2 and with `elastic run`. With both each process is given the same,
// the logs have the same names, and the messages are the same.
func TestFrameworksLauncher(t *testing.T) {
	python := framework("ps")
	p := newSandbox(t)
	p.installed(python)
	p.set("PYTHON_EXEC="+python, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python")
	if err := os.WriteFile(p.path("train.py"), []byte(waitsForServers+serving), 0o644); err != nil {
		t.Fatal(err)
	}
	q := ports(t, "127.0.0.1", 6)
	at := func(ports ...string) string { return "127.0.0.1:" + strings.Join(ports, ",127.0.0.1:") }
	for name, line := range map[string][]string{
		"numbers": {"--server_num=1", "--worker_num=2"},
		"heter":   {"--server_num=1", "--worker_num=2", "--heter_worker_num=1", "--heter_devices=cpu;cpu"},
		"stages": {"--server_num=1", "--worker_num=2", "--heter_worker_num=1;1",
			"--heter_devices=cpu;cpu;cpu"},
		"hosts": {"--servers=" + at(q[0], q[1]), "--workers=127.0.0.1,127.0.0.1", "--http_port=" + q[5]},
		"heter list": {"--servers=" + at(q[0]), "--workers=" + at(q[1], q[2]), "--heter_workers=" +
			at(q[3], q[4]), "--heter_devices=cpu;cpu"},
	} {
		theirs := p.start(python,
			slices.Concat([]string{"-m", "paddle.distributed.fleet.launch", "--log_dir=theirs-" + name}, line,
				[]string{"train.py", "--batch_size=64"})...)
		p.ends(theirs, 0)
		ours := p.run(slices.Concat([]string{"--log-dir=ours-" + name}, line,
			[]string{"train.py", "--batch_size=64"})...)
		p.ends(ours, 0)
		logs, err := filepath.Glob(p.path("theirs-"+name, "*log.*"))
		if err != nil || len(logs) < 3 {
			t.Fatalf("%s: %v, %v", name, logs, err)
		}
		for _, log := range logs {
			p.givenAlike(name, filepath.Base(log), strings.Join(line, " "))
		}
		want, got := sentences(theirs), sentences(ours)
		if !slices.Equal(want, got) {
			t.Errorf("%s: Paddle says %q, elastic %q", name, want, got)
		}
	}
}

// givenAlike compares what a process of both launchers was given. Ports that the line does not name
// may differ, and so may the directory of gloo.
func (p *sandbox) givenAlike(name, log, line string) {
	p.t.Helper()
	known := func(v string) string {
		return anyPort.ReplaceAllStringFunc(v, func(port string) string {
			if strings.Contains(line, port) {
				return port
			}
			return "PORT"
		})
	}
	theirs, ours := p.given("theirs-"+name, log), p.given("ours-"+name, log)
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		if key != "args" && !ofPaddle.MatchString(key) || key == "PADDLE_GLOO_FS_PATH" {
			continue
		}
		if got, has := ours[key]; !has || known(got) != known(theirs[key]) {
			p.t.Errorf("%s, %s: %s is %q, and with Paddle %q", name, log, key, got, theirs[key])
		}
	}
}

// sentences returns the sentences in the output of a launcher, each once: Paddle prints some twice.
func sentences(x *proc) (all []string) {
	for _, m := range saidOfRun.FindAllStringSubmatch(x.stdout()+"\n"+x.stderr(), -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}
