package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Problems checks a record. It keeps the first fault.
type Problems struct{ err error }

// Err is the first problem, or nil.
func (p *Problems) Err() error { return p.err }

// Check records a problem unless ok.
func (p *Problems) Check(ok bool, format string, args ...any) {
	if !ok && p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// Note records err, unless it is nil.
func (p *Problems) Note(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Name checks a name that becomes part of keys and paths. It does not use Check, whose arguments
// would be allocated for each of the thousands of names in a member list.
func (p *Problems) Name(what, s string) {
	if !ValidName(s) {
		p.Check(false, "%s %.80q is not a name", what, s)
	}
}

// Optional is Name for a string that may be empty.
func (p *Problems) Optional(what, s string) {
	if s != "" {
		p.Name(what, s)
	}
}

// Range checks a number.
func (p *Problems) Range(what string, n, least, most int64) {
	p.Check(least <= n && n <= most, "%s is %d, not %d to %d", what, n, least, most)
}

// Generation checks the number of a generation.
func (p *Problems) Generation(what string, g Generation) {
	p.Check(g <= MaxGeneration, "%s is %d, above the maximum", what, g)
}

// MaxText is the length of the longest sentence in a record.
const MaxText = 16 << 10

// Text checks a sentence that people read.
func (p *Problems) Text(what, s string) {
	p.Check(len(s) <= MaxText && utf8.ValidString(s), "%s is too long (%d bytes), or not UTF-8", what, len(s))
}

// Address checks the characters of host:port, or of a host alone. Only dialling shows whether it is
// right.
func (p *Problems) Address(what, s string) {
	if len(s) > 300 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.Check(false, "%s %.80q is no address", what, s)
	}
}
