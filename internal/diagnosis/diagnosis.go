// Package diagnosis finds out why a worker ended, from its exit status, its error file and the end
// of its output. It also finds the rank of a hanging job that the others wait for. It is pure: the
// same facts give the same answer.
package diagnosis

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Ending has the facts about a worker that has ended.
type Ending struct {
	Code      int    // exit status; 128+N for a signal
	Signal    string // "SIGKILL"; "" if it ended by itself
	Note      string // another fact, like "killed by the kernel: out of memory"
	ErrorFile []byte // content of $TORCHELASTIC_ERROR_FILE; nil: there is none
	Output    []byte // the last bytes of its output, of stderr if that has its own log
}

// Cause is the reason why a worker ended, as far as its own facts show it.
type Cause struct {
	Message string // one line: the exception, or the last line of the output
	Detail  string // several lines: the traceback, or the end of the output; at most maxDetail bytes
	// Victim: the worker reports only that its connection to another worker broke. The cause is
	// another failure of the same generation.
	Victim bool
	// Script: the script raises the error again each time, whatever is in its checkpoint.
	Script bool
}

const (
	maxMessage = 400
	maxDetail  = 4 << 10
	outputRows = 20
)

// Explain returns the cause of an ending.
func Explain(e Ending) Cause {
	c, raised := fromErrorFile(e.ErrorFile)
	if !raised {
		c, raised = fromOutput(e.Output)
	}
	switch {
	case slices.Contains(kernel, e.Signal): // not because of a broken connection
	case e.Signal == "SIGPIPE":
		c.Victim = true
	case raised:
		c.Victim = broken(c.Message)
		c.Script = !c.Victim && e.Signal == "" && ofScript(c.Message)
	case e.Code == 2 && ofArguments(c.Message):
		c.Script = true
	default:
		c.Victim = broken(lastRows(c.Detail, 5))
	}
	if e.Note != "" {
		c.Message = strings.TrimSuffix(e.Note+": "+c.Message, ": ")
		c.Victim, c.Script = false, false
	}
	c.Message = cut(c.Message, maxMessage)
	c.Detail = tail(c.Detail, maxDetail)
	return c
}

// kernel are signals that are a cause by themselves: the kernel or a person sent them.
var kernel = []string{"SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGXCPU", "SIGXFSZ"}

// fromErrorFile reads the file that torch's @record writes:
// {"message":{"message":…,"extraInfo":{"py_callstack":…}}}, or with a string as the message.
func fromErrorFile(file []byte) (Cause, bool) {
	var outer struct {
		Message json.RawMessage `json:"message"`
	}
	if len(file) == 0 || json.Unmarshal(file, &outer) != nil {
		return Cause{}, false
	}
	var plain string
	if json.Unmarshal(outer.Message, &plain) == nil {
		return Cause{Message: firstRow(plain), Detail: plain}, plain != ""
	}
	var inner struct {
		Message string `json:"message"`
		Extra   struct {
			Stack string `json:"py_callstack"`
		} `json:"extraInfo"`
	}
	if json.Unmarshal(outer.Message, &inner) != nil || inner.Message == "" {
		return Cause{}, false
	}
	c := Cause{Message: joinRows(inner.Message), Detail: strings.TrimRight(inner.Extra.Stack, "\n")}
	if c.Detail == "" {
		c.Detail = inner.Message
	}
	return c, true
}

// fromOutput finds the last Python traceback, else it takes the last lines. raised reports whether
// there is a traceback.
func fromOutput(output []byte) (c Cause, raised bool) {
	rows := rowsOf(output)
	begin, at := lastTraceback(rows)
	if begin < 0 {
		rows = rows[max(0, len(rows)-outputRows):]
		if len(rows) > 0 {
			c.Message = strings.TrimSpace(rows[len(rows)-1])
		}
		c.Detail = strings.Join(rows, "\n")
		return c, false
	}
	end := at + 1
	for end < len(rows) && end < at+8 && continues(rows[end]) {
		end++
	}
	c.Message = joinRows(strings.Join(rows[at:end], "\n"))
	c.Detail = strings.Join(rows[begin:end], "\n")
	return c, true
}

// continues reports whether a row below an exception may belong to its message. Messages of threads
// and destructors at the end of the interpreter do not.
func continues(row string) bool {
	return row != "" && row[0] != '[' && !strings.HasPrefix(row, "Exception ignored") &&
		!strings.HasPrefix(row, "terminate called")
}

const (
	tracebackRow = "Traceback (most recent call last):"
	duringRow    = "During handling of the above exception, another exception occurred:"
	directRow    = "The above exception was the direct cause of the following exception:"
)

// lastTraceback finds the start of the last traceback, including those it is chained to, and the
// row of its exception. The exception is -1 if there is none.
func lastTraceback(rows []string) (begin, exception int) {
	begin = -1
	chained := false
	for i, row := range rows {
		switch {
		case row == duringRow || row == directRow:
			chained = begin >= 0
		case row == tracebackRow:
			at := i + 1
			for at < len(rows) && (rows[at] == "" || rows[at][0] == ' ' || rows[at][0] == '\t') {
				at++
			}
			if at == len(rows) {
				continue // its start is cut off
			}
			if !chained {
				begin = i
			}
			exception, chained = at, false
		}
	}
	return begin, exception
}

// rowsOf splits output into lines. It removes torch's "[rank3]: ", text that a progress bar has
// overwritten, nanobind's report at the end of a process, and blank lines at the end.
func rowsOf(output []byte) []string {
	text := strings.ToValidUTF8(string(bytes.TrimRight(output, " \t\r\n")), "?")
	if text == "" {
		return nil
	}
	rows := strings.Split(text, "\n")
	for i, row := range rows {
		row = strings.TrimRight(row, "\r")
		row = row[strings.LastIndexByte(row, '\r')+1:]
		if rest, ok := strings.CutPrefix(row, "[rank"); ok {
			if digits, after, ok := strings.Cut(rest, "]:"); ok && isNumber(digits) {
				row = strings.TrimPrefix(after, " ")
			}
		}
		rows[i] = row
	}
	rows = slices.DeleteFunc(rows, isLeakReport)
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// isLeakReport reports whether a row is part of nanobind's list of objects that are left when a
// process ends. Python modules that use nanobind print it after every exception.
func isLeakReport(row string) bool {
	return slices.ContainsFunc(
		[]string{"nanobind: ", " - leaked ", " - ... skipped ", "See https://nanobind."},
		func(prefix string) bool { return strings.HasPrefix(row, prefix) })
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func firstRow(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(first)
}

// joinRows joins a message of several lines into one line.
func joinRows(s string) string { return strings.Join(strings.Fields(s), " ") }

func lastRows(s string, n int) string {
	rows := strings.Split(s, "\n")
	return strings.Join(rows[max(0, len(rows)-n):], "\n")
}

// cut shortens s to at most n bytes. It does not split a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}

// tail returns the last lines of s that fit into n bytes.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	if _, rest, ok := strings.Cut(s, "\n"); ok {
		return rest
	}
	return strings.ToValidUTF8(s, "")
}
