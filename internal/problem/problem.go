// Package problem has the errors for the user. The place that knows what happened makes one: a sentence
// with a code, a reason and a fix. Others compare its code.
package problem

import (
	"errors"
	"fmt"

	"github.com/elasticd/elastic/internal/phrase"
)

// Code is the stable name of an error, and a row in docs/REFERENCE.md.
type Code string

const (
	Failed       Code = "E-FAILED" // any other error
	Usage        Code = "E-USAGE"
	NPRange      Code = "E-NP-RANGE"
	NPConflict   Code = "E-NP-CONFLICT"
	BadName      Code = "E-NAME"
	JobID        Code = "E-JOB-ID"
	JobAmbiguous Code = "E-JOB-AMBIGUOUS"
	JobNone      Code = "E-JOB-NONE"
	JobLost      Code = "E-JOB-LOST"     // the server lost the job, and nodes claim it
	OtherServer  Code = "E-OTHER-SERVER" // this machine has a job of that name from another server
	StoreBehind  Code = "E-STORE-BEHIND" // this machine knows more of the job than the server shows
	JobBroken    Code = "E-JOB-UNREADABLE"
	JobEnded     Code = "E-JOB-ENDED"
	JobDone      Code = "E-JOB-DONE" // this node did not train, because the job is done
	JobLive      Code = "E-JOB-LIVE"
	JobDiffers   Code = "E-JOB-DIFFERS"
	NodeName     Code = "E-NODE-NAME"
	NoQuarantine Code = "E-NOT-QUARANTINED"
	Drain        Code = "E-DRAIN"     // the job has no such node, or needs it
	NotSaved     Code = "E-NOT-SAVED" // a stop was refused, because the workers did not save
	NoServer     Code = "E-NO-SERVER"
	Server       Code = "E-SERVER"
	DataDir      Code = "E-DATA-DIR" // of elasticd
	Listen       Code = "E-LISTEN"   // elasticd cannot listen there, or should not
	ServerAuth   Code = "E-SERVER-AUTH"
	ServerWrong  Code = "E-SERVER-WRONG"
	LocalOwner   Code = "E-LOCAL-OWNER"
	LocalStart   Code = "E-LOCAL-START"
	NoProgram    Code = "E-PROGRAM"
	NoPaddlePS   Code = "E-PADDLE-PS" // the installed Paddle has no parameter servers
	ProgramMode  Code = "E-PROGRAM-MODE"
	Address      Code = "E-ADDRESS"
	Ports        Code = "E-PORTS"
	Limits       Code = "E-LIMITS" // of this process, too low for a node
	StateDir     Code = "E-STATE-DIR"
	LogDir       Code = "E-LOG-DIR"
	WorkDir      Code = "E-WORK-DIR"
	Timeout      Code = "E-TIMEOUT"
	NoPlan       Code = "E-PLAN"
	BadDevices   Code = "E-DEVICES" // missing, given twice, or not the same number for each worker
	PreHook      Code = "E-PRE-HOOK"
	Check        Code = "E-CHECK"
	CkptLost     Code = "E-CKPT-LOST" // there are commits, but no checkpoint can be read
	CkptDir      Code = "E-CKPT-DIR"
	CkptBad      Code = "E-CKPT-BAD"
	CkptNone     Code = "E-CKPT-NONE"
	CkptUsed     Code = "E-CKPT-USED" // the checkpoint is in use
)

// Status returns the exit status of the process.
func (c Code) Status() int {
	switch c {
	case Usage, NPRange, BadName, JobID, JobAmbiguous, JobDiffers, NoPlan, BadDevices:
		return 2
	case ServerAuth:
		return 4
	case CkptLost:
		return 93
	case JobDone:
		return 95
	case OtherServer, StoreBehind:
		return 94
	case Timeout:
		return 124
	case LocalOwner, LocalStart, PreHook, Address, Ports, Limits, StateDir, LogDir, WorkDir, CkptDir:
		return 125
	case ProgramMode, NoPaddlePS:
		return 126
	case NoProgram:
		return 127
	}
	return 1
}

// Error is an error for the user: what happened, why, and how to fix it. Only main exits with
// Status.
type Error struct {
	Code    Code           `json:"code"`
	Details map[string]any `json:"details"`
	Fix     string         `json:"fix"`
	Message string         `json:"message"`
	Why     string         `json:"why"`

	Status int   `json:"-"`
	Err    error `json:"-"` // the cause, or nil
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Err }

func New(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Status: c.Status(), Message: fmt.Sprintf(format, args...),
		Details: map[string]any{}}
}

func (e *Error) Because(format string, args ...any) *Error {
	e.Why = fmt.Sprintf(format, args...)
	return e
}

func (e *Error) Cure(format string, args ...any) *Error {
	e.Fix = fmt.Sprintf(format, args...)
	return e
}

func (e *Error) Detail(name string, value any) *Error {
	e.Details[name] = value
	return e
}

func (e *Error) Of(err error) *Error {
	e.Err = err
	return e
}

// Is reports whether err is an error for the user with this code.
func Is(err error, c Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e != nil && e.Code == c
}

// Lines returns the error as text: the message with its code, the reason, and the fix.
func (e *Error) Lines() []string {
	all := []string{fmt.Sprintf("error: %s [%s]", phrase.Brief(e.Message), e.Code)}
	if e.Why != "" {
		all = append(all, "  why: "+phrase.Brief(e.Why))
	}
	if e.Fix != "" {
		all = append(all, "  fix: "+phrase.Brief(e.Fix))
	}
	return all
}
