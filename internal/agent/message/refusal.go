package message

import (
	"errors"
	"fmt"
	"time"
)

// Exit statuses of a node that did not train.
const (
	StatusHasMore = 94 // its machine has more of the job than the server
	StatusDone    = 95 // its job was done
)

var (
	// ErrLocked: another agent of this host has the node's name.
	ErrLocked = errors.New("held by another agent of this host")
	// ErrNoStore: the store did not answer within the connect timeout.
	ErrNoStore = errors.New("the server does not answer")
	// ErrRemoved: the job of this agent was removed.
	ErrRemoved = errors.New("the job was removed")
	// ErrDisk: the data of the job on this machine cannot be read or written.
	ErrDisk = errors.New("the checkpoints on this machine cannot be used")
	// ErrStoreRemoved: the directory of a node's checkpoints was removed under its agent.
	ErrStoreRemoved = errors.New("the checkpoints of this node were removed while its agent ran")
)

// JobDoneError: the job was done before this node trained in it.
type JobDoneError struct {
	Job   string
	Ran   string // the command of the job
	Spare bool   // this node stood by until the job was done
}

func (e *JobDoneError) Error() string {
	if e.Spare {
		return fmt.Sprintf("job %s is done, and this node did not train: it stood by as a spare", e.Job)
	}
	return fmt.Sprintf("job %s is done already: nothing was started", e.Job)
}

// NameTakenError: another live node has the given name.
type NameTakenError struct{ Node, Where string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("node %s is already here: %s", e.Node, e.Where)
}

// DirTakenError: nodes of another job use the checkpoint directory.
type DirTakenError struct{ Dir, Job string }

func (e *DirTakenError) Error() string {
	return fmt.Sprintf("checkpoint directory %s: nodes of job %s save into it", e.Dir, e.Job)
}

// NotWithinError: the server answers, but this node could not join within the connect timeout.
type NotWithinError struct {
	Limit time.Duration
	Err   error // the reason
}

func (e *NotWithinError) Error() string {
	return fmt.Sprintf("not in the job after %s: %v", e.Limit, e.Err)
}
func (e *NotWithinError) Unwrap() error { return e.Err }

// OtherProgramError: this node was given another program than other nodes of the job run.
type OtherProgramError struct {
	Job, Node   string // the job, and a node of it that answers
	Ran, Yours  string // the program of the job, and that of this node
	NodeRunsRan bool   // Node runs the program of the job
}

func (e *OtherProgramError) Error() string {
	return fmt.Sprintf("job %s runs `%s`, and this node was given `%s`", e.Job, e.Ran, e.Yours)
}
