package cli

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

// What the user sees follows these rules.
//
//   - stdout is data: a table, JSON, or the one line that says what was done.
//     stderr is words: progress, notices, errors.
//   - No capitals at the beginning of a sentence, no full stop at its end.
//   - Words and numbers carry everything; a colour only repeats it, and only on
//     a terminal.
//   - Times are relative on a terminal, where somebody reads them now, and
//     absolute everywhere else.
//   - A line of a table is cut at the width of the terminal.
//   - An error says what, why, and what to do; it ends in its code.
//   - A question is asked on a terminal only, and before something is deleted.
type printer struct {
	out, words io.Writer
	json       bool
	quiet      bool
	terminal   bool // out is one
	width      int  // of that terminal, in columns; 0: not known
	colour     bool
	now        func() time.Time
}

// columns is the width of the terminal that w is: 0 if it is none, or does not say.
func columns(w io.Writer) int {
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

// isTerminal reports whether stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// object writes v as JSON: on one line, so that scripts that read lines can.
func (p *printer) object(v any) error {
	enc := json.NewEncoder(p.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// line writes one line of data. What text in args would do to a terminal is escaped.
func (p *printer) line(format string, args ...any) error {
	_, err := fmt.Fprintf(p.out, format+"\n", plain(args)...)
	return err
}

// painted is text of our own that contains colours.
type painted string

// plain escapes every text in args but our own colours.
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

// say writes words, unless they are not wanted.
func (p *printer) say(format string, args ...any) {
	if !p.quiet {
		fmt.Fprintf(p.words, format+"\n", plain(args)...)
	}
}

// table writes rows in columns; the first is the heading. With -q only the first column, without it.
func (p *printer) table(rows [][]string) error {
	if p.quiet {
		for _, r := range rows[1:] {
			if err := p.line("%s", r[0]); err != nil {
				return err
			}
		}
		return nil
	}
	var width []int
	for _, r := range rows {
		for i := range r {
			r[i] = phrase.Plain(r[i])
			cell := r[i]
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, r := range rows {
		var b strings.Builder
		at := 0 // column
		for i, cell := range r {
			cell = p.cut(cell, at)
			at += width[i] + 2
			b.WriteString(string(p.paint(cell)))
			if i < len(r)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-len([]rune(cell))+2))
			}
		}
		if err := p.line("%s", painted(strings.TrimRight(b.String(), " "))); err != nil {
			return err
		}
	}
	return nil
}

// cut shortens what would not fit on the line of a terminal, from column at on.
func (p *printer) cut(text string, at int) string {
	room := p.width - at
	if runes := []rune(text); p.width > 0 && len(runes) > max(0, room) {
		if room < 1 {
			return ""
		}
		return string(runes[:room-1]) + "…"
	}
	return text
}

// paint colours a state.
func (p *printer) paint(word string) painted {
	if !p.colour {
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

// since tells a time: how long ago on a terminal, else when.
func (p *printer) since(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case !p.terminal:
		return t.UTC().Format(time.RFC3339)
	}
	return ago(p.now().Sub(t))
}

func ago(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	return age(d) + " ago"
}

// age tells how old something is, in the largest unit that says enough.
func age(d time.Duration) string {
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

// size tells a number of bytes.
func size(n int64) string {
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
