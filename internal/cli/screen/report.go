package screen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/elasticd/elastic/internal/problem"
)

// Exit ends a command with a status, without a message.
type Exit struct{ Status int }

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// Report prints err as text, and returns the exit status.
func Report(w io.Writer, err error) int {
	return report(err, func(e *problem.Error) {
		for _, line := range e.Lines() {
			fmt.Fprintln(w, Fold(line, Columns(w), strings.Index(line, ": ")+2))
		}
	})
}

// ReportJSON prints err as JSON, and returns the exit status.
func ReportJSON(w io.Writer, err error) int {
	return report(err, func(e *problem.Error) { json.NewEncoder(w).Encode(map[string]any{"error": e}) })
}

func report(err error, print func(*problem.Error)) int {
	if err == nil {
		return 0
	}
	var silent Exit
	if errors.As(err, &silent) {
		return silent.Status
	}
	e := KnownProblem(err)
	print(e)
	return e.Status
}
