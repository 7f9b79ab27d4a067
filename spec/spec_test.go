// Package spec_test checks the model of the protocol: the runs of runs.txt that are small enough
// for every day.
package spec_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestModel runs TLC. A run of the protocol as it is must end without an error in all states that
// its bounds allow, and a run with one wrong choice must end with the error that runs.txt names.
func TestModel(t *testing.T) {
	if _, err := exec.LookPath("java"); err != nil {
		t.Fatal("java is missing: apt-get install default-jre-headless")
	}
	if _, err := os.Stat(".tools/tla2tools.jar"); err != nil {
		t.Fatal("the TLC jar is missing: run spec/fetch.sh")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./run", "--quick")
	// TLC is a grandchild: the whole group ends with the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("run --quick: %v\n%s", err, out)
	}

	right, wrong := 0, 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "ok" && f[0] != "WRONG" {
			continue
		}
		if f[2] == "complete" {
			right++
		} else {
			wrong++
		}
		t.Run(f[1], func(t *testing.T) {
			if f[0] != "ok" {
				t.Errorf("%s\nsee .out/%s.txt", strings.TrimSpace(line), f[1])
			}
		})
	}
	if right < 5 || wrong < 8 {
		t.Errorf("got %d runs of the protocol and %d wrong choices, want at least 5 and 8\n%s", right, wrong, out)
	}
}

// TestEveryConstantIsUsed: a fault or a choice that no run ever changes shows nothing.
func TestEveryConstantIsUsed(t *testing.T) {
	table, err := os.ReadFile("runs.txt")
	if err != nil {
		t.Fatal(err)
	}
	for module, prefix := range map[string]string{"Elastic": "", "Stay": "stay_"} {
		config, err := os.ReadFile(module + ".cfg")
		if err != nil {
			t.Fatal(err)
		}
		constants := regexp.MustCompile(`(?m)^ +(\w+) = (\S+)$`).FindAllStringSubmatch(string(config), -1)
		if len(constants) == 0 {
			t.Fatalf("no constants in %s.cfg", module)
		}
		for _, c := range constants {
			changed := false
			for line := range strings.Lines(string(table)) {
				other := strings.HasPrefix(line, "stay_")
				if !strings.HasPrefix(line, prefix) || prefix == "" && other {
					continue
				}
				for _, use := range regexp.MustCompile(`\b`+c[1]+`=(\S+)`).FindAllStringSubmatch(line, -1) {
					changed = changed || use[1] != c[2]
				}
			}
			if !changed {
				t.Errorf("no run changes %s of %s.cfg", c[1], module)
			}
		}
	}
}
