//go:build kube

package kube_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// helmChart: helm installs a server of one member and a job in a namespace of their own. The job completes
// with the result of the undisturbed run, and helm takes all of it away again.
func (l *lab) helmChart() {
	const steps = 100
	volume := filepath.Join(volumes, "helm")
	if err := os.Mkdir(volume, 0o777); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Chmod(volume, 0o777); err != nil { // not limited by the umask
		l.t.Fatal(err)
	}
	l.must("create", "namespace", "helm")
	l.must("apply", "-f", "lab/helm-volumes.yaml")
	l.certificates("helm")
	l.helm("install", "train", "../../deploy/helm/elastic",
		"--set=image=docker.io/library/elastic:local", "--set=server.members=1",
		"--set=job.flags={--grace=30s,--batch-size=256,--lr=0.1,--scaling=fixed-batch}",
		"--set=job.command={elastic-demo,--steps=100}")
	l.until(3*time.Minute, "all pods complete", func() bool {
		return l.must("-n", "helm", "get", "job", "trainer", "-o", "jsonpath={.status.succeeded}") == "2"
	})
	want := undisturbed(l.t, steps, filepath.Join(l.t.TempDir(), "losses"))
	if log := l.must("-n", "helm", "logs", "-l", "job-name=trainer", "--tail=-1"); !strings.Contains(log, want) {
		l.t.Errorf("the undisturbed run ends with %q:\n%s", want, log)
	}
	l.helm("uninstall", "train", "--wait", "--timeout=90s")
	l.until(time.Minute, "the pods are gone, too", func() bool {
		return l.must("-n", "helm", "get", "all", "-o", "name") == ""
	})
}

func (l *lab) helm(args ...string) {
	l.t.Helper()
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/elastic-kube", filepath.Join(l.bin, "helm"),
		"--namespace=helm"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(l.dir, "kubeconfig"))
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
