//go:build kube

// Package kube_test runs the manifests of deploy/kubernetes on a real Kubernetes of one node.
package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lab is a running cluster with elasticd, a job of range 1:8, and elastic kube sync.
type lab struct {
	t   *testing.T
	bin string // programs of Kubernetes
	dir string
}

// open starts the cluster and applies the manifests.
func open(t *testing.T) *lab {
	t.Helper()
	bin := os.Getenv("KUBE_BIN")
	if bin == "" {
		t.Fatal("KUBE_BIN is not set: use make kube")
	}
	l := &lab{t: t, bin: bin, dir: t.TempDir()}
	if err := os.CopyFS(filepath.Join(l.dir, "images"), os.DirFS(os.Getenv("KUBE_IMAGES"))); err != nil {
		t.Fatal(err)
	}
	cluster := exec.Command("./cluster.sh", bin, l.dir)
	cluster.Stdout, cluster.Stderr = os.Stderr, os.Stderr
	cluster.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cluster.Wait() // the test ends it by a signal
	}()
	t.Cleanup(func() {
		_ = l.kubectl("delete", "statefulset,deployment,job", "--all", "--wait", "--timeout=60s")
		_ = l.kubectl("delete", "pods", "--all", "--wait", "--timeout=60s")
		_ = cluster.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	l.until(2*time.Minute, "the cluster is up", func() bool {
		_, err := os.Stat(filepath.Join(l.dir, "ready"))
		return err == nil
	})
	l.certificates()
	l.must("apply", "-k", "lab")
	return l
}

// certificates makes the Secret of the servers and clients.
func (l *lab) certificates() {
	l.t.Helper()
	make := exec.Command(filepath.Join(os.Getenv("ELASTIC_BIN"), "elastic"), "certs", "--kubernetes=elasticd",
		"--host=elasticd,*.elasticd", "--dir="+filepath.Join(l.dir, "elastic-certs"))
	make.Stderr = os.Stderr
	secret, err := make.Output()
	if err != nil {
		l.t.Fatal(err)
	}
	apply := l.command("apply", "-f", "-")
	apply.Stdin = strings.NewReader(string(secret))
	if out, err := apply.CombinedOutput(); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
}

func (l *lab) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(l.bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(l.dir, "kubeconfig"))
	return cmd
}

func (l *lab) kubectl(args ...string) error {
	out, err := l.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (l *lab) must(args ...string) string {
	l.t.Helper()
	out, err := l.command(args...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// until waits for a thing to happen.
func (l *lab) until(limit time.Duration, what string, ok func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), limit)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			out, _ := l.command("get", "pods,events", "--sort-by=.metadata.creationTimestamp").CombinedOutput()
			l.t.Fatalf("after %v not so: %s\n%s", limit, what, out)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// status is what the ConfigMap of the job says.
type status struct {
	State      string `json:"state"`
	Generation int    `json:"generation"`
	WorldSize  int    `json:"world_size"`
	Wish       struct {
		NP int `json:"np"`
	} `json:"wish"`
	Checkpoint struct {
		Step int `json:"step"`
	} `json:"checkpoint"`
}

func (l *lab) status(job string) status {
	var s status
	out, err := l.command("get", "configmap", "elastic-"+job, "-o", `jsonpath={.data.status\.json}`).Output()
	if err == nil {
		_ = json.Unmarshal(out, &s) // not there yet is no status
	}
	return s
}

// runs waits for a world of n nodes.
func (l *lab) runs(job string, n int) status {
	l.t.Helper()
	return l.runsAfter(job, n, 0)
}

// runsAfter waits for a world of n nodes that is newer than generation.
func (l *lab) runsAfter(job string, n, generation int) status {
	l.t.Helper()
	var s status
	l.until(2*time.Minute, fmt.Sprintf("job %s runs with %d nodes", job, n), func() bool {
		s = l.status(job)
		return s.State == "running" && s.WorldSize == n && s.Generation > generation
	})
	return s
}

// TestRangeFollowsReplicas: replicas is the size, a deleted pod comes back, the leader of the
// servers may go, and an evicted pod saves and leaves.
func TestRangeFollowsReplicas(t *testing.T) {
	l := open(t)
	first := l.runs("trainer", 2)
	l.until(time.Minute, "a checkpoint is committed", func() bool { return l.status("trainer").Checkpoint.Step > 0 })
	l.must("scale", "statefulset/trainer", "--replicas=4")
	four := l.runsAfter("trainer", 4, first.Generation)
	l.must("delete", "pod", "trainer-2", "--force", "--grace-period=0")
	generation := l.runsAfter("trainer", 4, four.Generation).Generation
	l.must("delete", "pod", "elasticd-0", "--force", "--grace-period=0")
	l.until(2*time.Minute, "three servers are ready again", func() bool {
		return l.must("get", "statefulset/elasticd", "-o", "jsonpath={.status.readyReplicas}") == "3"
	})
	if now := l.runs("trainer", 4).Generation; now != generation {
		t.Errorf("the loss of a server made generation %d of %d", now, generation)
	}

	l.must("scale", "statefulset/trainer", "--replicas=1")
	l.runs("trainer", 1)
	log := l.must("logs", "trainer-0")
	if strings.Contains(log, "twice") || strings.Contains(log, "missing") {
		t.Errorf("samples were lost or taken twice:\n%s", log)
	}

	l.exact()
	l.ends()
}

// exact goes on with a job of exactly as many nodes as replicas, scaled from both sides.
func (l *lab) exact() {
	l.t.Helper()
	l.must("delete", "statefulset", "trainer", "--wait", "--timeout=90s")
	l.must("apply", "-k", "lab/exact")
	l.runs("exact", 2)
	l.must("scale", "statefulset/trainer", "--replicas=3")
	l.runs("exact", 3)
	l.must("exec", "trainer-0", "--", "/usr/local/bin/elastic", "scale", "exact", "--np=2", "--detach")
	l.runs("exact", 2)
	l.until(time.Minute, "replicas follow np", func() bool {
		return l.must("get", "statefulset/trainer", "-o", "jsonpath={.spec.replicas}") == "2"
	})
}

// ends runs a job whose pods complete, and one that fails for good and is not tried again.
func (l *lab) ends() {
	l.t.Helper()
	l.must("apply", "-k", "lab/indexed")
	l.until(3*time.Minute, "all pods of a job that is done complete", func() bool {
		return l.must("get", "job", "trainer", "-o", "jsonpath={.status.succeeded}") == "2"
	})
	l.must("delete", "job", "trainer", "--wait", "--timeout=60s")
	l.must("apply", "-k", "lab/failing")
	l.until(3*time.Minute, "a job that failed is not tried again", func() bool {
		return strings.Contains(l.must("get", "job", "trainer", "-o", "jsonpath={.status.conditions}"), `"Failed"`)
	})
	message := l.must("get", "pods", "-l", "job-name=trainer",
		"-o", "jsonpath={.items[*].status.containerStatuses[*].state.terminated.message}")
	if !strings.Contains(message, "job failing failed") {
		l.t.Errorf("the pods say %q", message)
	}
}
