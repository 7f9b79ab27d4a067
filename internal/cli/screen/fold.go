package screen

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fold breaks a line that is wider than a terminal of so many columns between its words. The lines
// that follow the first begin at column indent. A word that is wider than the terminal stays whole,
// so that it can be copied. columns 0: text stays as it is.
func Fold(text string, columns, indent int) string {
	if columns <= indent || utf8.RuneCountInString(text) <= columns {
		return text
	}
	var b strings.Builder
	at := 0 // the next column of the line that is being written
	for i, word := range strings.Split(text, " ") {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at > indent && at+1+width > columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += width
	}
	return b.String()
}

// Folded writes one line of data for people, broken between its words where the terminal is too
// narrow.
func (p *Printer) Folded(indent int, format string, args ...any) error {
	_, err := fmt.Fprintln(p.Out, Fold(fmt.Sprintf(format, plain(args)...), p.Width, indent))
	return err
}
