package screen

import (
	"strings"

	"github.com/elasticd/elastic/internal/phrase"
)

// Table writes rows in columns. The first row is the heading. With -q it writes only the first
// column, without the heading.
func (p *Printer) Table(rows [][]string) error {
	if p.Quiet {
		for _, r := range rows[1:] {
			if err := p.Line("%s", r[0]); err != nil {
				return err
			}
		}
		return nil
	}
	width := widths(rows)
	for _, r := range rows {
		if err := p.row(r, width); err != nil {
			return err
		}
	}
	return nil
}

// widths returns the widths of the columns. It first escapes control characters in the cells.
func widths(rows [][]string) (width []int) {
	for _, r := range rows {
		for i := range r {
			r[i] = phrase.Plain(r[i])
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len([]rune(r[i])))
		}
	}
	return width
}

// row writes one row. If the last column does not fit, it is written below the row.
func (p *Printer) row(r []string, width []int) error {
	var b strings.Builder
	var below []string
	at := 0 // column
	for i, cell := range r {
		if last := i == len(r)-1; last && i > 0 && cell != "" && p.Width > 0 && at+
			len([]rune(cell)) > p.Width {
			below = wrap(cell, p.Width-indent(p.Width, width))
			break
		}
		cell = p.cut(cell, at)
		at += width[i] + 2
		b.WriteString(string(p.Paint(cell)))
		if i < len(r)-1 {
			b.WriteString(strings.Repeat(" ", width[i]-len([]rune(cell))+2))
		}
	}
	if err := p.Line("%s", painted(strings.TrimRight(b.String(), " "))); err != nil {
		return err
	}
	for _, line := range below {
		if err := p.Line("%s%s", painted(strings.Repeat(" ", indent(p.Width, width))), line); err != nil {
			return err
		}
	}
	return nil
}

// indent returns the column of the text below a row: that of the second column, if there is room.
func indent(columns int, width []int) int {
	if at := width[0] + 2; at <= columns/2 {
		return at
	}
	return min(4, columns-1)
}

// maxBelow is how many lines of text are written below a row.
const maxBelow = 3

// wrap breaks text into lines of that many columns, between words if possible.
func wrap(text string, columns int) (lines []string) {
	rest := []rune(text)
	for len(rest) > columns {
		if len(lines) == maxBelow-1 {
			rest = append(rest[:columns-1:columns-1], '…')
			break
		}
		at := strings.LastIndexByte(string(rest[:columns+1]), ' ')
		if at <= 0 {
			lines, rest = append(lines, string(rest[:columns])), rest[columns:]
			continue
		}
		line := string(rest[:columns+1])[:at]
		lines, rest = append(lines, line), rest[len([]rune(line))+1:]
	}
	return append(lines, string(rest))
}

// cut shortens text that starts at column at to the width of the terminal.
func (p *Printer) cut(text string, at int) string {
	room := p.Width - at
	if runes := []rune(text); p.Width > 0 && len(runes) > max(0, room) {
		if room < 1 {
			return ""
		}
		return string(runes[:room-1]) + "…"
	}
	return text
}
