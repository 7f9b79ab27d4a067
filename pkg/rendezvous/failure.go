package rendezvous

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
)

// Failure is the known cause of the end of a generation, and the other failures in it.
type Failure struct {
	Node        string                 `json:"node"`
	Incarnation membership.Incarnation `json:"incarnation"`
	Rank        int                    `json:"rank"`
	LocalRank   int                    `json:"local_rank"`
	Process     Process                `json:"process,omitzero"` // a process that is no trainer
	Code        int                    `json:"code"`
	Signal      string                 `json:"signal,omitempty"`
	Step        *int64                 `json:"step,omitempty"` // the last step that the worker reported
	// a loss that the worker reported is not a finite number, at Step
	NaN  bool `json:"nan,omitempty"`
	Hang bool `json:"hang,omitempty"` // the worker made no progress, and was ended for that
	// NotKnown: all workers hang, and no rank differs from the others. It is no node's failure.
	NotKnown bool `json:"not_known,omitempty"`
	// one line: the exception, or the last output
	Message string `json:"message,omitempty"`
	Detail  string `json:"detail,omitempty"` // the traceback, or the end of its output
	// Script: the script raises this error again each time, whatever its checkpoint has in it.
	Script bool `json:"script,omitempty"`
	// Victim: nothing is known but that the worker's connection to another worker broke, or that it
	// was ended because all workers hung. Any other failure of the generation is then the cause.
	Victim bool            `json:"victim,omitempty"`
	Others []CollateralEnd `json:"others,omitempty"` // other failures; at most maxCollateral
	Time   time.Time       `json:"time"`
	Rev    int64           `json:"-"`
}

// Process is a process that is no trainer: a parameter server or a heter worker. It has no
// rank.
type Process struct {
	Name string `json:"name,omitempty"` // server 0
	Log  string `json:"log,omitempty"`  // serverlog.0
}

// name is the process that failed.
func (f Failure) name() string {
	if f.Process.Name != "" {
		return f.Process.Name
	}
	return fmt.Sprintf("rank %d", f.Rank)
}

// CollateralEnd is a worker that failed in the same generation, and is not the cause.
type CollateralEnd struct {
	Rank   int    `json:"rank"`
	Name   string `json:"name,omitempty"` // of a process that is no trainer
	Node   string `json:"node"`
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	Victim bool   `json:"victim,omitempty"` // its connection to another worker broke
	Same   bool   `json:"same,omitempty"`   // it is the script error of the cause
}

// Before reports whether f was at an earlier step than other. An unknown step is the latest.
func (f Failure) Before(other Failure) bool {
	return f.Step != nil && (other.Step == nil || *f.Step < *other.Step)
}

// maxCollateral bounds the record: thousands of ranks may fail because of one.
const maxCollateral = 16

// With adds next, another failure of the same generation, to f. The first failure is the cause,
// unless it is a victim and next is not. changed reports whether the result says more than f.
func (f Failure) With(next Failure) (merged Failure, changed bool) {
	cause, other := f, next
	if f.Victim && !next.Victim {
		cause, other = next, f
	}
	cause.Others = nil
	for _, c := range append(f.Others[:len(f.Others):len(f.Others)], other.beside(cause)) {
		known := slices.ContainsFunc(cause.Others,
			func(k CollateralEnd) bool { return k.Rank == c.Rank && k.Name == c.Name })
		if (c.Rank != cause.Rank || c.Name != cause.Process.Name) && !known &&
			len(cause.Others) < maxCollateral {
			cause.Others = append(cause.Others, c)
		}
	}
	cause.Rev = f.Rev
	return cause, cause.Rank != f.Rank || cause.Process != f.Process || cause.Victim != f.Victim ||
		len(cause.Others) != len(f.Others)
}

// beside returns f as one that is not the cause.
func (f Failure) beside(cause Failure) CollateralEnd {
	return CollateralEnd{Rank: f.Rank, Name: f.Process.Name, Node: f.Node, Code: f.Code,
		Signal: f.Signal, Victim: f.Victim, Same: f.ScriptError() != "" && f.ScriptError() == cause.ScriptError()}
}

// address matches what differs in the texts of one error.
var address = regexp.MustCompile(`0x[0-9a-f]+`)

// ScriptError is the text of a script error that is the same each time; "": it is none.
func (f Failure) ScriptError() string {
	if !f.Script {
		return ""
	}
	return address.ReplaceAllString(f.Message, "0x")
}

// OfNode reports whether the failure speaks against its node.
func (f Failure) OfNode() bool { return !f.Victim && !f.NaN && !f.NotKnown && !f.AsksForRestart() }

// AsksForRestart reports whether the worker asked for a new generation (Paddle's 101 and 102).
func (f Failure) AsksForRestart() bool {
	return f.Signal == "" && !f.Hang && (f.Code == 101 || f.Code == 102)
}

// Status is the exit status of a job that ends because of this failure: 128+N for a signal.
func (f Failure) Status() int { return f.Code }

// String is the failure as one sentence.
func (f Failure) String() string {
	text := fmt.Sprintf("%s on %s ended with exit code %d", f.name(), f.Node, f.Code)
	switch {
	case f.NaN && f.Step != nil:
		return fmt.Sprintf("the loss of rank %d on %s is not a number at step %d", f.Rank, f.Node, *f.Step)
	case f.NaN:
		return fmt.Sprintf("the loss of rank %d on %s is not a number", f.Rank, f.Node)
	case f.Hang:
		text = fmt.Sprintf("rank %d on %s hangs", f.Rank, f.Node)
	case f.Signal != "":
		text = fmt.Sprintf("%s on %s was ended by %s", f.name(), f.Node, f.Signal)
	}
	if f.Message != "" {
		text += ": " + f.Message
	}
	return text
}

// Ended is how its worker ended, in words.
func (f Failure) Ended() string {
	if f.Hang {
		return "hangs"
	}
	return endedAs(f.Code, f.Signal)
}

func endedAs(code int, signal string) string {
	if signal != "" {
		return "ended by " + signal
	}
	return fmt.Sprintf("exit code %d", code)
}

// Lines returns the details of the failure, to be shown below its first line: the traceback or the
// last output, and the workers that failed because of it.
func (f Failure) Lines() []string {
	var lines []string
	shown := strings.Join(strings.Fields(f.Detail), " ")
	if f.Message != "" && !strings.Contains(shown, strings.TrimSuffix(f.Message, "…")) {
		lines = append(lines, f.Message)
	}
	if f.Detail != "" {
		lines = append(lines, strings.Split(f.Detail, "\n")...)
	}
	if len(f.Others) == 0 {
		return lines
	}
	var others []string
	for _, o := range f.Others {
		how := endedAs(o.Code, o.Signal)
		if o.Victim {
			how += ", connection lost"
		}
		others = append(others, fmt.Sprintf("%s (%s)",
			Failure{Rank: o.Rank, Process: Process{Name: o.Name}}.name(), how))
	}
	return append(lines, "because of it: "+phrase.List(others)+"; other ranks were ended by elastic")
}
