//go:build kube

// Package kube_test runs the manifests of deploy/kubernetes on a real Kubernetes of three nodes.
package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKubernetes goes through the life of jobs in one cluster, in this order.
func TestKubernetes(t *testing.T) {
	l := open(t)
	for _, part := range []struct {
		name string
		test func(*lab)
	}{
		{"SecretComesLate", (*lab).secretComesLate},
		{"PlannedChangesLoseNoStep", (*lab).plannedChanges},
		{"PodAndDiskLost", (*lab).podAndDiskLost},
		{"LeaderDeleted", (*lab).leaderDeleted},
		{"ReplicasOutsideOfTheRange", (*lab).outsideOfTheRange},
		{"NoRights", (*lab).noRights},
		{"ExactBothWays", (*lab).exactBothWays},
		{"OneLabelTwice", (*lab).oneLabelTwice},
		{"ReplicasWin", (*lab).replicasWin},
		{"ImageWithoutShell", (*lab).imageWithoutShell},
		{"DoneJobCompletes", (*lab).doneJob},
		{"FailedJobSaysWhy", (*lab).failedJob},
		{"KubeflowIsInstalled", (*lab).kubeflowInstalled},
		{"HelmChart", (*lab).helmChart},
		{"KubeflowAcceptsTheRuntime", (*lab).kubeflowAcceptsTheRuntime},
		{"TrainJobCompletes", (*lab).trainJobCompletes},
		{"TrainJobFails", (*lab).trainJobFails},
	} {
		ok := t.Run(part.name, func(t *testing.T) {
			l.t = t
			begin := time.Now()
			part.test(l)
			t.Logf("%.0f s", time.Since(begin).Seconds())
		})
		if l.t = t; !ok {
			return // the next test begins with the state that this one leaves
		}
	}
}

// secretComesLate: pods wait for the Secret, and say so; they start when it is there.
func (l *lab) secretComesLate() {
	l.must("apply", "-k", "lab")
	l.until(2*time.Minute, "Kubernetes says which Secret is missing", func() bool {
		return strings.Contains(l.must("get", "events", "-o", "jsonpath={.items[*].message}"),
			`secret "elasticd-client" not found`)
	})
	l.certificates("default")
	l.runs("trainer", 2)
}

// plannedChanges: replicas is the size, and a node is drained; no step is made twice.
func (l *lab) plannedChanges() {
	now := l.runs("trainer", 2)
	l.must("scale", "statefulset/trainer", "--replicas=4")
	now = l.runsAfter("trainer", 4, now.Generation)
	l.until(time.Minute, "a readiness probe of each pod succeeds", func() bool {
		return l.must("get", "statefulset/trainer", "-o", "jsonpath={.status.readyReplicas}") == "4"
	})
	node := l.must("get", "pod", "trainer-3", "-o", "jsonpath={.spec.nodeName}")
	l.must("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=180s")
	l.runsAfter("trainer", 4, now.Generation)
	if on := l.must("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"); strings.Contains(on, node) {
		l.t.Errorf("pods on %s, which was drained: %s", node, on)
	}
	l.must("uncordon", node)
	l.must("scale", "statefulset/trainer", "--replicas=1")
	l.runs("trainer", 1)
	for step, losses := range l.losses("losses") {
		if len(losses) != 1 {
			l.t.Errorf("step %d was made %d times", step, len(losses))
		}
	}
	l.asUndisturbed("losses")
}

// podAndDiskLost: the agent of rank 0 is killed with all that it had, and its pod is made again
// with an empty disk.
func (l *lab) podAndDiskLost() {
	l.must("scale", "statefulset/trainer", "--replicas=3")
	three := l.runs("trainer", 3)
	l.until(time.Minute, "a checkpoint of three nodes is committed", func() bool {
		return l.status("trainer").Checkpoint.Step > three.Checkpoint.Step
	})
	disk := filepath.Join(volumes, "trainer-0")
	if err := os.Rename(disk, disk+".lost"); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Mkdir(disk, 0o777); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Chmod(disk, 0o777); err != nil { // not limited by the umask
		l.t.Fatal(err)
	}
	if err := syscall.Kill(l.agent("trainer-0"), syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
	l.must("delete", "pod", "trainer-0", "--force", "--grace-period=0")
	l.runsAfter("trainer", 3, three.Generation)
	l.asUndisturbed("losses")
}

// leaderDeleted: training goes on in its generation while the leader of the servers is replaced.
func (l *lab) leaderDeleted() {
	before := l.runs("trainer", 3)
	leader := l.leader()
	uid := l.must("get", "pod", leader, "-o", "jsonpath={.metadata.uid}")
	l.must("delete", "pod", leader, "--force", "--grace-period=0")
	l.until(3*time.Minute, "another pod takes its place and is ready", func() bool {
		now, err := l.command("get", "pod", leader, "-o",
			`jsonpath={.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}`).Output()
		other, isReady := strings.CutSuffix(string(now), " True")
		return err == nil && isReady && other != uid
	})
	since := l.status("trainer").Checkpoint.Step
	l.until(time.Minute, "a checkpoint is committed after that", func() bool {
		return l.status("trainer").Checkpoint.Step > since
	})
	if now := l.runs("trainer", 3).Generation; now != before.Generation {
		l.t.Errorf("the loss of a server made generation %d of %d", now, before.Generation)
	}
}

// outsideOfTheRange: pods beyond MAX stand by, below MIN training waits, and an event says so.
func (l *lab) outsideOfTheRange() {
	l.must("scale", "statefulset/trainer", "--replicas=5")
	l.saidOf("trainer", "replicas is 5 and the job takes at most 4: the other pods stand by as spares")
	l.runs("trainer", 4)
	l.must("scale", "statefulset/trainer", "--replicas=0")
	l.saidOf("trainer", "replicas is 0 and the job needs at least 1: training waits")
	before := l.status("trainer").Generation
	l.must("scale", "statefulset/trainer", "--replicas=5") // any of them may hold the newest checkpoint alone
	l.runsAfter("trainer", 4, before)
	l.must("scale", "statefulset/trainer", "--replicas=2")
	l.runs("trainer", 2)
}

// noRights: elastic kube sync says what it may not do, and goes on when it may.
func (l *lab) noRights() {
	l.must("delete", "rolebinding", "elastic-sync")
	l.until(time.Minute, "the missing right is named", func() bool {
		log := l.must("logs", "deployment/elastic-sync")
		return strings.Contains(log, "the service account lacks a right") &&
			strings.Contains(log, "cannot list resource")
	})
	l.must("apply", "-k", "lab")
	l.runs("trainer", 2)
	l.must("delete", "statefulset", "trainer", "--wait", "--timeout=90s")
}

// exactBothWays: np follows replicas, and replicas follows np.
func (l *lab) exactBothWays() {
	l.must("apply", "-k", "lab/exact")
	l.runs("exact", 2)
	l.must("scale", "statefulset/trainer", "--replicas=3")
	l.runs("exact", 3)
	l.scale("exact", 2)
	l.replicas(2)
	l.runs("exact", 2)
	l.asUndisturbed("exact")
}

// oneLabelTwice: the first StatefulSet is kept equal with the job, and the other is reported.
func (l *lab) oneLabelTwice() {
	l.must("create", "-f", "lab/same-label.yaml")
	l.saidOf("trainer-too",
		"elastic.dev/job=exact is on StatefulSet trainer too: only that one is kept equal with the job")
	l.must("delete", "-f", "lab/same-label.yaml")
}

// replicasWin: both sides were changed while elastic kube sync was away.
func (l *lab) replicasWin() {
	l.must("scale", "deployment/elastic-sync", "--replicas=0")
	l.until(time.Minute, "elastic kube sync is away", func() bool {
		return l.must("get", "pods", "-l", "app.kubernetes.io/name=elastic-sync", "-o", "name") == ""
	})
	l.must("scale", "statefulset/trainer", "--replicas=3")
	l.scale("exact", 1)
	l.must("scale", "deployment/elastic-sync", "--replicas=1")
	l.saidOf("trainer", "replicas was set to 3 and np to 1; replicas wins")
	l.runs("exact", 3)
	l.must("delete", "statefulset", "trainer", "--wait", "--timeout=90s")
}

// imageWithoutShell: elastic is copied into an image that holds one program and no shell.
func (l *lab) imageWithoutShell() {
	l.must("apply", "-k", "lab/own-image")
	l.runs("own", 1)
	l.must("delete", "statefulset", "trainer", "--wait", "--timeout=90s")
}

// doneJob: all pods of a job that is done complete, with the result of the undisturbed run.
func (l *lab) doneJob() {
	const steps = 100
	l.must("apply", "-k", "lab/indexed")
	l.until(3*time.Minute, "all pods complete", func() bool {
		return l.must("get", "job", "trainer", "-o", "jsonpath={.status.succeeded}") == "2"
	})
	want := undisturbed(l.t, steps, filepath.Join(l.t.TempDir(), "losses"))
	if log := l.must("logs", "-l", "job-name=trainer", "--tail=-1"); !strings.Contains(log, want) {
		l.t.Errorf("the undisturbed run ends with %q:\n%s", want, log)
	}
	l.must("delete", "job", "trainer", "--wait", "--timeout=60s")
}

// failedJob: a job that failed is not tried again, and its pods say why.
func (l *lab) failedJob() {
	l.must("apply", "-k", "lab/failing")
	l.until(3*time.Minute, "a job that failed is not tried again", func() bool {
		conditions := l.must("get", "job", "trainer", "-o", "jsonpath={.status.conditions}")
		return strings.Contains(conditions, `"Failed"`)
	})
	message := l.must("get", "pods", "-l", "job-name=trainer",
		"-o", "jsonpath={.items[*].status.containerStatuses[*].state.terminated.message}")
	for _, want := range []string{"job failing failed: ", "; exit code 2\n", "ended with exit code 2"} {
		if !strings.HasPrefix(message, "job failing failed: ") || !strings.Contains(message, want) {
			l.t.Errorf("no %q in what the pods say: %q", want, message)
		}
	}
}

// scale asks for np nodes from within a pod.
func (l *lab) scale(job string, np int) {
	l.t.Helper()
	l.must("exec", "trainer-0", "--",
		"/usr/local/bin/elastic", "scale", job, fmt.Sprintf("--np=%d", np), "--detach")
}

// replicas waits until the StatefulSet has n.
func (l *lab) replicas(n int) {
	l.t.Helper()
	l.until(time.Minute, fmt.Sprintf("replicas is %d", n), func() bool {
		return l.must("get", "statefulset/trainer", "-o", "jsonpath={.spec.replicas}") == fmt.Sprint(n)
	})
}

// saidOf waits for an event of a StatefulSet.
func (l *lab) saidOf(set, text string) {
	l.t.Helper()
	l.until(time.Minute, "an event says: "+text, func() bool {
		return strings.Contains(l.must("get", "events", "--field-selector", "involvedObject.name="+set,
			"-o", "jsonpath={.items[*].message}"), text)
	})
}
