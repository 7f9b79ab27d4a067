// Package diagnosis says why a worker ended, from what it left: its exit status, its error file and
// the end of its output. It also says which rank of a job that hangs is behind. It decides and does
// nothing else: the same facts give the same answer.
package diagnosis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Ending is what a worker left.
type Ending struct {
	Code      int    // exit status; 128+N for a signal
	Signal    string // "SIGKILL"; "" if it ended by itself
	Note      string // what else is known, as "killed by the kernel: out of memory"
	ErrorFile []byte // content of $TORCHELASTIC_ERROR_FILE; nil: there is none
	Output    []byte // the end of what it wrote, of stderr where that is apart
}

// Cause is why a worker ended, as far as one worker can show it.
type Cause struct {
	Message string // one line: the exception, or the last line of the output
	Detail  string // several lines: the traceback, or the end of the output; at most maxDetail bytes
	// Victim: all that it says is that its connection to another worker broke. Another failure
	// of the same generation is the cause.
	Victim bool
}

const (
	maxMessage = 400
	maxDetail  = 4 << 10
	outputRows = 20
)

// Explain finds the cause in what a worker left.
func Explain(e Ending) Cause {
	c, raised := fromErrorFile(e.ErrorFile)
	if !raised {
		c, raised = fromOutput(e.Output)
	}
	switch {
	case slices.Contains(kernel, e.Signal): // not of a broken connection
	case e.Signal == "SIGPIPE":
		c.Victim = true
	case raised:
		c.Victim = broken(c.Message)
	default:
		c.Victim = broken(lastRows(c.Detail, 5))
	}
	if e.Note != "" {
		c.Message = strings.TrimSuffix(e.Note+": "+c.Message, ": ")
		c.Victim = false
	}
	c.Message = cut(c.Message, maxMessage)
	c.Detail = tail(c.Detail, maxDetail)
	return c
}

// kernel are the signals that name a cause of their own: the kernel or a person sent them.
var kernel = []string{"SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGXCPU", "SIGXFSZ"}

// fromErrorFile reads what torch's @record writes:
// {"message":{"message":…,"extraInfo":{"py_callstack":…}}}, or a plain string as the message.
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

// fromOutput finds the last traceback of Python, else takes the last lines. raised: there is a
// traceback.
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

// continues reports whether a row below an exception may belong to its message. What threads and
// destructors say while the interpreter ends does not.
func continues(row string) bool {
	return row != "" && row[0] != '[' && !strings.HasPrefix(row, "Exception ignored") &&
		!strings.HasPrefix(row, "terminate called")
}

const (
	tracebackRow = "Traceback (most recent call last):"
	duringRow    = "During handling of the above exception, another exception occurred:"
	directRow    = "The above exception was the direct cause of the following exception:"
)

// lastTraceback finds where the last traceback begins, with those that it is chained to, and the
// row of its exception; -1: there is none.
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
				continue // it is cut off: what it says is not known
			}
			if !chained {
				begin = i
			}
			exception, chained = at, false
		}
	}
	return begin, exception
}

// rowsOf splits output into lines, without the "[rank3]: " that torch puts before each line of a
// traceback, without what a progress bar wrote over, without what nanobind says at the end of a
// process, and without blank lines at the end.
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
	rows = slices.DeleteFunc(rows, tellsLeaks)
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// tellsLeaks reports whether a row is one of those in which nanobind, with which modules of Python are
// built, lists the objects that are left when a process ends. Each exception leaves some.
func tellsLeaks(row string) bool {
	return slices.ContainsFunc(
		[]string{"nanobind: ", " - leaked ", " - ... skipped ", "See https://nanobind."},
		func(prefix string) bool { return strings.HasPrefix(row, prefix) })
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func firstRow(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(first)
}

// joinRows makes one line of a message of several.
func joinRows(s string) string { return strings.Join(strings.Fields(s), " ") }

func lastRows(s string, n int) string {
	rows := strings.Split(s, "\n")
	return strings.Join(rows[max(0, len(rows)-n):], "\n")
}

// cut shortens s to at most n bytes, at a whole character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}

// tail is the last lines of s that fit into n bytes.
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

// Status is how a worker ended, in words.
func Status(code int, signal string) string {
	if signal != "" {
		return "ended by " + signal
	}
	return fmt.Sprintf("exit code %d", code)
}
