//go:build kube

package kube_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// losses is what the pods wrote into a file of their volumes: the losses of each step, one for each
// time that it was made. Steps of a disk that was lost are not among them.
func (l *lab) losses(file string) map[int][]float64 {
	l.t.Helper()
	found := map[int][]float64{}
	files, err := filepath.Glob(filepath.Join(volumes, "trainer-?", file))
	if err != nil || len(files) == 0 {
		l.t.Fatalf("no %s: %v", file, err)
	}
	for _, f := range files {
		for step, losses := range readLosses(l.t, f) {
			found[step] = append(found[step], losses...)
		}
	}
	return found
}

func readLosses(t *testing.T, file string) map[int][]float64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[int][]float64{}
	for line := range bytes.Lines(text) {
		var reported struct {
			Step int
			Loss float64
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		if err := json.Unmarshal(line, &reported); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		found[reported.Step] = append(found[reported.Step], reported.Loss)
	}
	return found
}

// asUndisturbed compares the loss of each step with that of a run on one machine without Elastic.
func (l *lab) asUndisturbed(file string) {
	l.t.Helper()
	got := l.losses(file)
	last := 0
	for step := range got {
		last = max(last, step)
	}
	plain := filepath.Join(l.t.TempDir(), "losses")
	undisturbed(l.t, last, plain)
	want := readLosses(l.t, plain)
	for step, losses := range got {
		for _, loss := range losses {
			if math.Abs(loss-want[step][0]) > 1e-9*want[step][0] {
				l.t.Errorf("step %d has loss %v, undisturbed %v", step, loss, want[step][0])
			}
		}
	}
	l.t.Logf("%d steps up to step %d have the losses of the undisturbed run", len(got), last)
}

// undisturbed trains for some steps without Elastic, and returns the loss and the accuracy that it
// ends with.
func undisturbed(t *testing.T, steps int, losses string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(os.Getenv("ELASTIC_BIN"), "elastic-demo"), "--batch-size=256", "--lr=0.1",
		"--pace=0", "--steps="+strconv.Itoa(steps), "--losses="+losses).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := strings.TrimSpace(string(out))
	return "; " + text[strings.LastIndex(text, "loss "):]
}

// agent is the process of the agent in a pod, as this machine sees it.
func (l *lab) agent(pod string) int {
	l.t.Helper()
	found := 0
	l.until(30*time.Second, "an agent in "+pod, func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range all {
			env, err := os.ReadFile(f)
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			words := strings.Split(string(line), "\x00")
			if err == nil && slices.Contains(strings.Split(string(env), "\x00"), "POD_NAME="+pod) &&
				len(words) > 1 && filepath.Base(words[0]) == "elastic" && words[1] == "run" {
				found, _ = strconv.Atoi(filepath.Base(filepath.Dir(f)))
				return true
			}
		}
		return false
	})
	return found
}

// leader is the pod that leads the servers.
func (l *lab) leader() string {
	l.t.Helper()
	found := ""
	l.until(time.Minute, "the servers have a leader", func() bool {
		for i := range 3 {
			pod := fmt.Sprintf("elasticd-%d", i)
			certs := filepath.Join(l.dir, "elastic-certs")
			metrics, err := exec.Command("nsenter", "--net=/run/netns/elastic-kube", "curl", "-fsk",
				"--cert", filepath.Join(certs, "client.crt"), "--key", filepath.Join(certs, "client.key"),
				"https://"+l.must("get", "pod", pod, "-o", "jsonpath={.status.podIP}")+":7070/metrics").
				Output()
			if err == nil && strings.Contains(string(metrics), "\netcd_server_is_leader 1") {
				found = pod
				return true
			}
		}
		return false
	})
	return found
}
