//go:build kube

package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/outside"
)

// lab is a running cluster of three nodes.
type lab struct {
	t   *testing.T // of the test that uses it
	bin string     // programs of Kubernetes
	dir string
}

// volumes is where cluster.sh has a directory for each pod with a volume.
const volumes = "/var/lib/elastic-kube-lab"

// open starts the cluster.
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
	script := exec.Command("./cluster.sh", bin, l.dir)
	script.Stdout, script.Stderr = os.Stderr, os.Stderr
	outside.Start(t, script, func() {
		l.t = t
		l.keepLogs()
		_ = l.kubectl("delete", "statefulset,deployment,job", "--all", "--wait", "--timeout=60s")
		_ = l.kubectl("delete", "pods", "--all", "--wait", "--timeout=60s")
	})
	l.until(5*time.Minute, "the cluster is up", func() bool {
		_, err := os.Stat(filepath.Join(l.dir, "ready"))
		return err == nil
	})
	return l
}

// certificates makes the Secrets of the servers and clients in a namespace.
func (l *lab) certificates(namespace string) {
	l.t.Helper()
	make := exec.Command(filepath.Join(os.Getenv("ELASTIC_BIN"), "elastic"), "certs", "--kubernetes=elasticd",
		"--host=elasticd,elasticd-0.elasticd,elasticd-1.elasticd,elasticd-2.elasticd", "--dir="+filepath.Join(l.dir, "elastic-certs"))
	make.Stderr = os.Stderr
	secret, err := make.Output()
	if err != nil {
		l.t.Fatal(err)
	}
	apply := l.command("-n", namespace, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(string(secret))
	if out, err := apply.CombinedOutput(); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
}

func (l *lab) command(args ...string) *exec.Cmd {
	kubectl := []string{"--net=/run/netns/elastic-kube", filepath.Join(l.bin, "kubectl")}
	cmd := exec.Command("nsenter", append(kubectl, args...)...)
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

// keepLogs copies the logs of the cluster to KUBE_LOGS, if that is set.
func (l *lab) keepLogs() {
	if to := os.Getenv("KUBE_LOGS"); to != "" {
		_ = os.RemoveAll(to)
		_ = os.CopyFS(to, os.DirFS(filepath.Join(l.dir, "log"))) // they are for a reader, not for the test
	}
}

// until waits for a thing to happen.
func (l *lab) until(limit time.Duration, what string, ok func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), limit)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			out, _ := l.command("get", "pods,events", "--sort-by=.metadata.creationTimestamp").
				CombinedOutput()
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
		_ = json.Unmarshal(out, &s) // an error: there is no status yet
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
	l.until(4*time.Minute, fmt.Sprintf("job %s runs with %d nodes", job, n), func() bool {
		s = l.status(job)
		return s.State == "running" && s.WorldSize == n && s.Generation > generation
	})
	return s
}
