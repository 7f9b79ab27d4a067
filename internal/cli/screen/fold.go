package screen

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fold breaks a line between words if it is wider than columns. The following lines start at column
// indent. A longer word stays whole, so that it can be copied. With columns 0 the text is
// unchanged.
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

// Folded writes one line of data, broken between words at the width of the terminal.
func (p *Printer) Folded(indent int, format string, args ...any) error {
	_, err := fmt.Fprintln(p.Out, Fold(fmt.Sprintf(format, plain(args)...), p.Width, indent))
	return err
}
