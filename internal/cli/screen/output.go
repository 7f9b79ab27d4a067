// Package screen writes what a command prints, for people and for scripts: lines, tables, JSON, and
// errors with a code, a reason, a fix and an exit status.
package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/elasticd/elastic/internal/phrase"
)

// Printer writes what the user sees. The rules of all commands:
//
//   - stdout is data: a table, JSON, or the one line that says what was done.
//     stderr is words: progress, notices, errors.
//   - No capitals at the beginning of a sentence, no full stop at its end.
//   - Words and numbers carry everything; a colour only repeats it, and only on a terminal.
//   - Times are relative on a terminal, where the user reads them now, and absolute everywhere
//     else.
//   - A sentence is broken between words where the terminal is too narrow.
//   - A line of a table fits the width of the terminal: a last column without room stands below its
//     row, another one is cut.
//   - An error says what, why, and what to do; it ends in its code.
//   - A question is asked on a terminal only, and before something is deleted.
type Printer struct {
	Out, Words io.Writer
	Json       bool
	Quiet      bool
	Terminal   bool // out is a terminal
	Width      int  // columns of the terminal; 0: unknown
	Colour     bool
	Now        func() time.Time
}

// Columns returns the width of the terminal w. It returns 0 if w is none, or if the width is
// unknown.
func Columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// IsTerminal reports whether stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Object writes v as JSON on one line, for scripts that read line by line.
func (p *Printer) Object(v any) error {
	enc := json.NewEncoder(p.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Line writes one line of data. Control characters in args are escaped.
func (p *Printer) Line(format string, args ...any) error {
	_, err := fmt.Fprintf(p.Out, format+"\n", plain(args)...)
	return err
}

// painted is text with colours that the program added.
type painted string

// plain escapes all texts in args except painted ones.
func plain(args []any) []any {
	all := slices.Clone(args)
	for i, arg := range args {
		switch v := arg.(type) {
		case painted:
		case error:
			all[i] = phrase.Plain(v.Error())
		case fmt.Stringer:
			all[i] = phrase.Plain(v.String())
		default:
			if text := reflect.ValueOf(arg); text.Kind() == reflect.String {
				all[i] = phrase.Plain(text.String())
			}
		}
	}
	return all
}

// Say writes a line to stderr, unless -q was given.
func (p *Printer) Say(format string, args ...any) {
	if !p.Quiet {
		fmt.Fprintln(p.Words, Fold(fmt.Sprintf(format, plain(args)...), Columns(p.Words), 2))
	}
}

// SayAfterEcho is Say on a new line, because the terminal has just shown ^C.
func (p *Printer) SayAfterEcho(format string, args ...any) {
	if !p.Quiet && Columns(p.Words) > 0 {
		fmt.Fprintln(p.Words)
	}
	p.Say(format, args...)
}

// Paint returns the word for a state in its colour.
func (p *Printer) Paint(word string) painted {
	if !p.Colour {
		return painted(word)
	}
	code := ""
	switch word {
	case "running", "ready", "done", "finishing":
		code = "32"
	case "waiting", "starting", "stopping", "joining", "suspect", "draining", "spare":
		code = "33"
	case "failed", "lost", "abandoned":
		code = "31"
	default:
		return painted(word)
	}
	return painted("\x1b[" + code + "m" + word + "\x1b[0m")
}

// Painted writes text. The first occurrence of state gets its colour.
func (p *Printer) Painted(text, state string) error {
	return p.Line("%s", painted(strings.Replace(text, "  "+state+":", "  "+string(p.Paint(state))+":", 1)))
}

// Since formats a time: on a terminal as the time that has passed, else as the time itself.
func (p *Printer) Since(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case !p.Terminal:
		return t.UTC().Format(time.RFC3339)
	}
	return ago(p.Now().Sub(t))
}

func ago(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	return Age(d) + " ago"
}

// Age formats a duration in the largest unit that is precise enough.
func Age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, d)/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// Size formats a number of bytes.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n), 0
	for ; f >= unit && i < 5; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTPE"[i-1])
}

// Known formats a number that may be unknown.
func Known[N int | int64](n *N) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
