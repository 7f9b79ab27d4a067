// Package refusal has the reasons for which a node is not let into its job.
package refusal

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrLocked: another agent of this host has the node's name.
	ErrLocked = errors.New("held by another agent of this host")
	// ErrNoStore: the store did not answer within the connect timeout.
	ErrNoStore = errors.New("the server does not answer")
	// ErrRemoved: the job of this agent was removed.
	ErrRemoved = errors.New("the job was removed")
	// ErrDisk: what this machine keeps of the job cannot be read or written.
	ErrDisk = errors.New("the checkpoints on this machine cannot be used")
)

// NameTaken: the name that was given is alive elsewhere.
type NameTaken struct{ Node, Where string }

func (e *NameTaken) Error() string {
	return fmt.Sprintf("node %s is already here: %s", e.Node, e.Where)
}

// DirTaken: nodes of another job have the checkpoint directory.
type DirTaken struct{ Dir, Job string }

func (e *DirTaken) Error() string {
	return fmt.Sprintf("checkpoint directory %s: nodes of job %s save into it", e.Dir, e.Job)
}

// NotWithin: the server answers, and still this node could not take part within the connect
// timeout.
type NotWithin struct {
	Limit time.Duration
	Err   error // what was in the way
}

func (e *NotWithin) Error() string { return fmt.Sprintf("not in the job after %s: %v", e.Limit, e.Err) }
func (e *NotWithin) Unwrap() error { return e.Err }

// OtherProgram: this node was given another program than the nodes run that are in the job.
type OtherProgram struct {
	Job, Node   string // the job, and a node of it that answers
	Ran, Yours  string // the program that the job was made with, and that of this node
	NodeRunsRan bool   // that node runs the program that the job was made with
}

func (e *OtherProgram) Error() string {
	return fmt.Sprintf("job %s runs `%s`, and this node was given `%s`", e.Job, e.Ran, e.Yours)
}
