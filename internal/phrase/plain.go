package phrase

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes text of unknown origin safe for a terminal. It escapes characters that a terminal
// would execute, or would show misleadingly. The result is one line.
func Plain(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == utf8.RuneError || !hidden(r):
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

// hidden reports whether a rune must be escaped: a control character (also of C1), a character that
// changes the direction or order of text, or a byte that is not UTF-8, which some terminals treat
// as a control character.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r == utf8.RuneError || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Brief is Plain, with long words cut in the middle: somebody else may have made them long.
func Brief(s string) string {
	words := strings.Split(Plain(s), " ")
	for i, w := range words {
		if r := []rune(w); len(r) > longestWord {
			words[i] = fmt.Sprintf("%s…(%d characters)…%s", string(r[:60]), len(r), string(r[len(r)-20:]))
		}
	}
	return strings.Join(words, " ")
}

// longestWord is longer than most paths.
const longestWord = 300
