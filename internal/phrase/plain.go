package phrase

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes text that came from elsewhere safe to show on a terminal: what a terminal would obey,
// or show as something else than it is, is written as an escape. The result is one line.
func Plain(s string) string { return escape(s, "") }

// PlainLines is Plain for text of several lines.
func PlainLines(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return hidden(r) && !strings.ContainsRune(keep, r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == utf8.RuneError || !hidden(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// hidden is every control character, C1 too, what changes the direction or order of the text around
// it, and bytes that are no UTF-8, which some terminals take for control characters.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r == utf8.RuneError || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
