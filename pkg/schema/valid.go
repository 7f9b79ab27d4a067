package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Problems collects the faults of a record; the first one counts.
type Problems struct{ err error }

// Err is the first problem, or nil.
func (p *Problems) Err() error { return p.err }

// Check notes a problem unless ok.
func (p *Problems) Check(ok bool, format string, args ...any) {
	if !ok && p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// Note notes err, unless it is nil.
func (p *Problems) Note(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Name checks a name that becomes part of keys and of paths. A member list has thousands of them,
// so it allocates only for a fault, and Check would for its arguments.
func (p *Problems) Name(what, s string) {
	if !ValidName(s) {
		p.Check(false, "%s %.80q is not a name", what, s)
	}
}

// Optional is Name for what may be empty.
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
	p.Check(g <= MaxGeneration, "%s is %d, larger than any", what, g)
}

// MaxText is the length of the longest sentence in a record.
const MaxText = 16 << 10

// Text checks a sentence for people.
func (p *Problems) Text(what, s string) {
	p.Check(len(s) <= MaxText && utf8.ValidString(s), "%s has %d bytes, or is no UTF-8", what, len(s))
}

// Address checks host:port, or a host alone, by its characters: whether it leads anywhere is shown
// by dialling.
func (p *Problems) Address(what, s string) {
	if len(s) > 300 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.Check(false, "%s %.80q is no address", what, s)
	}
}
