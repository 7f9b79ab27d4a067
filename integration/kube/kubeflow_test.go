//go:build kube

package kube_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
)

// kubeflowInstalled: JobSet and Kubeflow's trainer are installed with the manifests of their modules. The
// next test does not wait until they are ready.
func (l *lab) kubeflowInstalled() {
	dir := filepath.Join(l.dir, "kubeflow")
	for _, from := range []string{"lab/kubeflow-controllers", filepath.Join(l.bin, "kubeflow")} {
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			l.t.Fatal(err)
		}
	}
	l.must("apply", "--server-side", "-k", dir)
}

// kubeflowAcceptsTheRuntime: both are ready, and the trainer's webhook accepts the runtime.
func (l *lab) kubeflowAcceptsTheRuntime() {
	for _, namespace := range []string{"jobset-system", "kubeflow-system"} {
		l.must("-n", namespace, "wait", "deployment", "--all", "--for=condition=Available", "--timeout=4m")
	}
	l.until(time.Minute, "the trainer accepts the runtime", func() bool {
		// The API server refuses it until it reaches the webhook.
		return l.kubectl("apply", "-k", "lab/kubeflow") == nil
	})
}

// trainJobCompletes: a TrainJob trains in an image without elastic. One agent is killed, and another pod is
// deleted with its disk. Both pods are made again, and the TrainJob completes with the result of the
// undisturbed run.
func (l *lab) trainJobCompletes() {
	const steps = 1000
	job := l.trainJob("--scaling=fixed-batch", "--batch-size=256", "--lr=0.1",
		"/elastic/elastic-demo", "--step-sleep=40ms", "--steps="+strconv.Itoa(steps))
	now := l.trains(job, 4, 0)
	l.until(time.Minute, "a checkpoint is committed", func() bool {
		return l.statusInPods(job).Checkpoint.Step > 0
	})
	if err := syscall.Kill(l.agent("node-1"), syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
	now = l.trains(job, 3, now.Generation)
	l.must("delete", "pod", l.pods(job + ",batch.kubernetes.io/job-completion-index=0")[0])
	now = l.trains(job, 4, now.Generation)
	l.t.Logf("4 pods train again from step %d on", now.Checkpoint.Step)
	l.until(time.Minute, "the TrainJob shows the progress", func() bool {
		return l.ofTrainJob(job, "{.status.trainerStatus.progressPercentage}") != ""
	})
	l.until(3*time.Minute, "the TrainJob is complete", func() bool {
		return l.ofTrainJob(job, `{.status.conditions[?(@.type=="Complete")].status}`) == "True"
	})
	want := undisturbed(l.t, steps, filepath.Join(l.t.TempDir(), "losses"))
	if log := l.must("logs", "-l", ofJob+job, "-c", "node", "--tail=-1"); !strings.Contains(log, want) {
		l.t.Errorf("the undisturbed run ends with %q:\n%s", want, log)
	}
	l.must("delete", "trainjob", job, "--wait", "--timeout=60s")
}

// trainJobFails: a TrainJob whose job was stopped fails at once.
func (l *lab) trainJobFails() {
	job := l.trainJob("/elastic/elastic-demo", "--steps=100000", "--step-sleep=40ms")
	l.trains(job, 4, 0)
	l.must("exec", l.pods(job)[0], "-c", "node", "--", "/elastic/elastic", "stop", job, "--detach")
	l.until(time.Minute, "the TrainJob has failed", func() bool {
		return l.ofTrainJob(job, `{.status.conditions[?(@.type=="Failed")].status}`) == "True"
	})
	reason := l.must("get", "job", job+"-node-0",
		"-o", `jsonpath={.status.conditions[?(@.type=="Failed")].reason}`)
	if reason != "PodFailurePolicy" {
		l.t.Errorf("the Job failed with %q, not for the exit status 93", reason)
	}
	l.must("delete", "trainjob", job, "--wait", "--timeout=60s")
}

// ofJob begins a selector of the pods of a TrainJob.
const ofJob = "jobset.sigs.k8s.io/jobset-name="

// trainJob creates the TrainJob of deploy/kubernetes with an image that has no elastic, and returns its name.
func (l *lab) trainJob(args ...string) string {
	l.t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes/kubeflow/trainjob.yaml")
	if err != nil {
		l.t.Fatal(err)
	}
	var job map[string]any
	if err := yaml.Unmarshal(text, &job); err != nil {
		l.t.Fatal(err)
	}
	trainer := job["spec"].(map[string]any)["trainer"].(map[string]any)
	trainer["image"], trainer["args"] = "docker.io/library/pause:local", args
	if text, err = json.Marshal(job); err != nil {
		l.t.Fatal(err)
	}
	create := l.command("create", "-f", "-", "-o", "jsonpath={.metadata.name}")
	create.Stdin, create.Stderr = bytes.NewReader(text), os.Stderr
	name, err := create.Output()
	if err != nil {
		l.t.Fatal(err)
	}
	return string(name)
}

func (l *lab) ofTrainJob(job, path string) string {
	l.t.Helper()
	return l.must("get", "trainjob", job, "-o", "jsonpath="+path)
}

// pods are those of a TrainJob.
func (l *lab) pods(job string) []string {
	l.t.Helper()
	return strings.Fields(l.must("get", "pods", "-l", ofJob+job, "-o", "jsonpath={.items[*].metadata.name}"))
}

// statusInPods is what elastic says of the job in the first pod of a TrainJob that answers.
func (l *lab) statusInPods(job string) status {
	l.t.Helper()
	var s status
	for _, pod := range l.pods(job) {
		asked := l.command("exec", pod, "-c", "node", "--", "/elastic/elastic", "status", "-o", "json")
		if out, err := asked.Output(); err == nil && json.Unmarshal(out, &s) == nil {
			break
		}
	}
	return s
}

// trains waits until n nodes of a TrainJob train in a generation that is newer than the given one.
func (l *lab) trains(job string, n, generation int) status {
	l.t.Helper()
	var s status
	l.until(3*time.Minute, fmt.Sprintf("%d nodes of the TrainJob train", n), func() bool {
		s = l.statusInPods(job)
		return s.State == "running" && s.WorldSize == n && s.Generation > generation
	})
	return s
}
