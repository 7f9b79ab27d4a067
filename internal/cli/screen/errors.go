package screen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
	Code    Code
	Status  int
	Message string
	Why     string
	Fix     string
	Details map[string]any
	Err     error // the cause, or nil
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Err }

func New(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Status: c.Status(), Message: fmt.Sprintf(format, args...)}
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
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[name] = value
	return e
}

func (e *Error) Of(err error) *Error {
	e.Err = err
	return e
}

// Exit ends a command with a status, without a message.
type Exit struct{ Status int }

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// Report prints err as text, and returns the exit status.
func Report(w io.Writer, err error) int { return report(w, err, (*Error).print) }

// ReportJSON prints err as JSON, and returns the exit status.
func ReportJSON(w io.Writer, err error) int { return report(w, err, (*Error).printJSON) }

func report(w io.Writer, err error, print func(*Error, io.Writer)) int {
	if err == nil {
		return 0
	}
	var silent Exit
	if errors.As(err, &silent) {
		return silent.Status
	}
	e := KnownProblem(err)
	print(e, w)
	return e.Status
}

func (e *Error) printJSON(w io.Writer) {
	details := e.Details
	if details == nil {
		details = map[string]any{}
	}
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": e.Code, "message": e.Message, "why": e.Why, "fix": e.Fix, "details": details}})
}

func (e *Error) print(w io.Writer) {
	line := func(what, text string) {
		fmt.Fprintln(w, Fold(what+": "+text, Columns(w), len(what)+2))
	}
	line("error", fmt.Sprintf("%s [%s]", phrase.Brief(e.Message), e.Code))
	if e.Why != "" {
		line("  why", phrase.Brief(e.Why))
	}
	if e.Fix != "" {
		line("  fix", phrase.Brief(e.Fix))
	}
}
