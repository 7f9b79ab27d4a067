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

	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
)

// part is a node's part in a job: its command, its server and its settings.
type part struct {
	c *command.Call
	s *target.Server
	o *node.Options
}

// outcome is the end of a node as the error of its command.
func (p part) outcome(ctx context.Context, r event.Result) error {
	c, o := p.c, p.o
	switch {
	case r.Err == nil && r.Status == 0:
		return nil
	case r.Err == nil && r.Status == problem.Timeout.Status() && o.WaitTimeout > 0:
		return p.waited(ctx)
	case r.Err == nil && r.Status == problem.CkptLost.Status():
		return p.never(ctx)
	case r.Err == nil:
		return problem.Exit{Status: r.Status}
	}
	e := *problem.Known(r.Err)
	if e.Code == problem.JobDiffers && e.Details["flag"] == "nproc-per-node" && c.Setting("gpus").Given {
		e.Because("%s is one worker for each device, and all nodes of a job have as many", c.Setting("gpus"))
	}
	if e.Code == problem.Failed && r.Status != 0 {
		e.Code, e.Status = place(r.Err, o), r.Status
	}
	if e.Code == problem.StateDir && errors.Is(r.Err, syscall.EPERM) {
		e.Cure("--state-dir=DIR on a file system that has hard links and locks, as ext4 and XFS have")
	}
	return &e
}

// waited tells a node that would not wait any longer from a job that failed with the same status.
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
		return problem.Exit{Status: e.Status}
	}
	// this one: the rest was missing beside it
	snap.Nodes = append(snap.Nodes, membership.Node{Attempt: snap.Job.Attempt})
	return e.Because("%s", status.Explain(&snap, c.Out.Now()).Why)
}

// never tells a job that has lost its checkpoints from others that are not to be started again.
func (p part) never(ctx context.Context) error {
	s, o := p.s, p.o
	ctx, cancel := context.WithTimeout(ctx, target.Patience)
	defer cancel()
	snap, err := rendezvous.Read(ctx, s, o.Job.Name)
	if err != nil || snap.Job == nil || !target.Ended(&snap) || snap.World.Outcome == nil ||
		snap.World.Outcome.Why != rendezvous.CheckpointLost {
		return problem.Exit{Status: problem.CkptLost.Status()}
	}
	return problem.New(problem.CkptLost, "job %s has no checkpoint that can be read", o.Job.Name).
		Because("%s", snap.World.Outcome.Message).
		Cure("bring back a node that has one, with its --state-dir, and run again; or from scratch: elastic rm %s",
			o.Job.Name)
}

// place tells a directory that cannot be used by the path in the error.
func place(err error, o *node.Options) problem.Code {
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

// terminationLog is the file in which Kubernetes looks for the last word of a container. It is
// there in the pods of Kubernetes alone.
const terminationLog = "/dev/termination-log"

// longestMessage is how many bytes of it Kubernetes shows.
const longestMessage = 4096

// leaveMessage writes the last word of this node where Kubernetes shows it. Without one, or without
// the file, Kubernetes shows the end of the output instead.
func leaveMessage(path, text string) {
	if text == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(text) // it is a copy of what was said already
}

// farewell is why a job failed or was stopped. It is empty for a job that goes on elsewhere, and
// outside of Kubernetes, where nothing reads it.
func farewell(ctx context.Context, s *target.Server, job schema.Job) string {
	if _, err := os.Stat(terminationLog); err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, target.Patience)
	defer cancel()
	snap, err := rendezvous.Read(ctx, s, job)
	if err != nil || snap.Job == nil || !target.Ended(&snap) || snap.World.Outcome == nil {
		return ""
	}
	return lastWord(snap.World, string(job))
}

// lastWord is a sentence on the end of a job, and the last lines of the traceback for which there
// is room.
func lastWord(w *rendezvous.World, job string) string {
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
