package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
)

// part is the part of this node in a job: its command, its server and its settings.
type part struct {
	c *command.Call
	s *target.Server
	o *node.Options
}

// outcome converts the result of a node to the error of its command.
func (p part) outcome(ctx context.Context, r message.Result) error {
	c, o := p.c, p.o
	switch {
	case r.Err == nil && r.Status == 0:
		return nil
	case r.Err == nil && r.Status == problem.Timeout.Status() && o.WaitTimeout > 0:
		return p.waited(ctx)
	case r.Err == nil && r.Status == problem.CkptLost.Status():
		return p.never(ctx)
	case r.Err == nil:
		return screen.Exit{Status: r.Status}
	}
	e := *screen.KnownProblem(r.Err)
	if e.Code == problem.JobDone && o.DoneOK {
		c.Out.Say("elastic: %v", &e)
		return nil
	}
	if e.Code == problem.JobDiffers && e.Details["flag"] == "nproc-per-node" && c.Setting("gpus").Given {
		e.Because("%s is one worker for each device, and all nodes of a job have as many", c.Setting("gpus"))
	}
	if e.Code == problem.Failed && r.Status != 0 {
		e.Code, e.Status = codeOfPath(r.Err, o), r.Status
	}
	if e.Code == problem.StateDir && errors.Is(r.Err, syscall.EPERM) {
		e.Cure("--state-dir=DIR on a file system that has hard links and locks, as ext4 and XFS have")
	}
	return &e
}

// waited returns the error of a node that --wait-timeout ended. A job that failed with the same
// status returns only the status.
func (p part) waited(ctx context.Context) error {
	c, s, o := p.c, p.s, p.o
	e := problem.New(problem.Timeout, "no world ran here for %s", o.WaitTimeout).
		Because("the server did not answer")
	ctx, cancel := context.WithTimeout(ctx, target.Patience)
	defer cancel()
	snap, err := rendezvous.Read(ctx, s, o.Job.Name)
	if err != nil || snap.Job == nil {
		return e
	}
	if target.Ended(&snap) {
		return screen.Exit{Status: e.Status}
	}
	// the status must count this node, which is no longer registered
	snap.Nodes = append(snap.Nodes, membership.Node{Attempt: snap.Job.Attempt})
	return e.Because("%s", status.Explain(&snap, c.Out.Now()).Why)
}

// never returns the error of a job without a readable checkpoint. Other jobs that cannot start
// again return only the status.
func (p part) never(ctx context.Context) error {
	s, o := p.s, p.o
	ctx, cancel := context.WithTimeout(ctx, target.Patience)
	defer cancel()
	snap, err := rendezvous.Read(ctx, s, o.Job.Name)
	if err != nil || snap.Job == nil || !target.Ended(&snap) || snap.World.Outcome == nil ||
		snap.World.Outcome.Why != rendezvous.CheckpointLost {
		return screen.Exit{Status: problem.CkptLost.Status()}
	}
	return problem.New(problem.CkptLost, "job %s has no checkpoint that can be read", o.Job.Name).
		Because("%s", snap.World.Outcome.Message).
		Cure("bring back a node that has one, with its --state-dir, and run again; or from scratch: elastic rm %s",
			o.Job.Name)
}

// codeOfPath returns the code for a directory that cannot be used, by the path in the error.
func codeOfPath(err error, o *node.Options) problem.Code {
	var path string
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		path = bad.Path
	} else if bad, ok := errors.AsType[*os.LinkError](err); ok {
		path = bad.New
	} else {
		return problem.Failed
	}
	logs, _ := filepath.Abs(o.LogDir)
	switch {
	case o.CheckpointDir != "" && strings.HasPrefix(path, o.CheckpointDir):
		return problem.CkptDir
	case strings.HasPrefix(path, o.StateDir):
		return problem.StateDir
	case strings.HasPrefix(path, logs):
		return problem.LogDir
	}
	return problem.Failed
}

// terminationLog is the file from which Kubernetes reads the reason for the end of a container. It
// exists only in pods.
const terminationLog = "/dev/termination-log"

// longestMessage is how many bytes of terminationLog Kubernetes shows.
const longestMessage = 4096

// leaveMessage writes the reason for the end of this node to terminationLog. Without the text or
// the file, Kubernetes shows the end of the output.
func leaveMessage(path, text string) {
	if text == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(text) // an error is ignored: the user has the text already
}

// endMessage returns why a job failed or was stopped. It is "" if the job goes on, and outside of
// Kubernetes.
func endMessage(ctx context.Context, s *target.Server, job schema.Job) string {
	if _, err := os.Stat(terminationLog); err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, target.Patience)
	defer cancel()
	snap, err := rendezvous.Read(ctx, s, job)
	if err != nil || snap.Job == nil || !target.Ended(&snap) || snap.World.Outcome == nil {
		return ""
	}
	return endText(snap.World, string(job))
}

// endText returns a sentence about the end of a job, and as many last lines of the traceback as
// fit.
func endText(w *rendezvous.World, job string) string {
	o := w.Outcome
	text := fmt.Sprintf("job %s %s: %s\n", job, w.Phase, o.Message)
	if w.Phase == rendezvous.Failed {
		text = fmt.Sprintf("job %s failed: %s; exit code %d\n", job, o.Message, o.Code)
	}
	if o.Failure == nil {
		return text
	}
	text += o.Failure.String() + "\n"
	lines := o.Failure.Lines()
	room := longestMessage - len(text)
	first := len(lines)
	for first > 0 && room > len(lines[first-1]) {
		first--
		room -= len(lines[first]) + 1
	}
	for _, line := range lines[first:] {
		text += line + "\n"
	}
	return text
}
