package top

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/elasticd/elastic/internal/phrase"
)

// paint is whether colours are used.
type paint bool

func (p paint) code(code, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p paint) good(text string) string { return p.code("32", text) }
func (p paint) busy(text string) string { return p.code("34", text) }
func (p paint) warn(text string) string { return p.code("33", text) }
func (p paint) bad(text string) string  { return p.code("31", text) }
func (p paint) dim(text string) string  { return p.code("2", text) }
func (p paint) bold(text string) string { return p.code("1", text) }

// over paints the row under the cursor. Without colours it is marked by an arrow alone.
func (p paint) over(text string) string { return p.code("7", text) }

// cut makes text safe for a terminal, and at most width wide.
func cut(text string, width int) string {
	text = phrase.Plain(text)
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	if width < 2 {
		return string(runes[:max(0, width)])
	}
	return string(runes[:width-1]) + "…"
}

// pad is cut, filled up with spaces.
func pad(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// right is pad with the text at the right.
func right(text string, width int) string {
	text = cut(text, width)
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text))) + text
}

// known writes a number that may be unknown.
func known[T any](v *T, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}
