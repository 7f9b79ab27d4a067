package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/goodput"
	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// jobScreen is one job: its head, and the parts that the tab shows.
func (m *model) jobScreen() (head, body []string, keys string) {
	keys = "1 all  2 nodes  3 checkpoints  4 events  l lines  s stop  esc back  q quit"
	o := m.view.Job
	switch {
	case !m.ready:
		return []string{m.paint.dim("reading …")}, nil, keys
	case o == nil:
		return []string{fmt.Sprintf("there is no job %s on this server", m.job)}, nil, keys
	}
	head = m.jobHead(o)
	part := func(title string, lines []string) {
		if len(lines) > 0 {
			body = append(body, m.paint.bold(title))
			body = append(append(body, lines...), "")
		}
	}
	if m.tab == tabAll {
		part("timeline", m.timeline(&o.Timeline))
		part("newest failure", m.failure(o))
	}
	if m.tab == tabAll || m.tab == tabNodes {
		part("nodes", m.nodes(o))
	}
	if m.tab == tabAll || m.tab == tabCheckpoints {
		part("checkpoints", m.checkpoints(o))
	}
	if m.tab == tabAll {
		part("where the time went", m.goodput(&o.Goodput))
	}
	if m.tab == tabAll || m.tab == tabEvents {
		part("events", m.events(o))
	}
	if m.tab == tabLines {
		var lines []string
		for _, l := range m.lineText {
			lines = append(lines, cut("  "+l, m.width))
		}
		part("lines of the workers", lines)
	}
	return head, body, keys
}

func (m *model) jobHead(o *overview.Job) []string {
	s := &o.Summary
	head := []string{m.paint.bold(cut(string(s.Job), m.width-12)) + "  " + m.level(s.Level, s.State)}
	why := screen.Fold(phrase.Plain(s.Why), m.width, 0)
	head = append(head, strings.Split(why, "\n")...)
	for _, n := range s.Notes {
		head = append(head, m.paint.warn(cut("! "+n, m.width)))
	}
	facts := []string{fmt.Sprintf("nodes %d of %d", s.Present, s.NP),
		fmt.Sprintf("generation %d, world size %d", s.Generation, s.WorldSize)}
	if s.Step != nil {
		facts = append(facts, fmt.Sprintf("step %d", *s.Step))
	}
	if s.Loss != nil {
		facts = append(facts, fmt.Sprintf("loss %.4g", *s.Loss))
	}
	if s.Rate != nil {
		facts = append(facts, fmt.Sprintf("%.1f samples/s", *s.Rate))
	}
	if s.Left != nil {
		facts = append(facts, screen.ShortTime(time.Duration(*s.Left*float64(time.Second)))+" left")
	}
	if s.Kept != nil {
		facts = append(facts, fmt.Sprintf("%.1f%% kept", 100**s.Kept))
	}
	facts = append(facts, fmt.Sprintf("%d of %d restarts", s.Restarts.Used, s.Restarts.Max))
	for line := range strings.SplitSeq(screen.Fold(strings.Join(facts, " · "), m.width, 0), "\n") {
		head = append(head, m.paint.dim(line))
	}
	return append(head, cut("next: "+s.Command, m.width), "")
}

// glyphs draw the phases of a timeline, also without colours.
func glyph(p overview.Phase) string {
	switch p {
	case overview.Training:
		return "█"
	case overview.Redone:
		return "▒"
	case overview.Hung:
		return "!"
	case overview.Starting:
		return "+"
	case overview.Saving:
		return "s"
	case overview.Backoff:
		return "b"
	case overview.Waiting:
		return "."
	case overview.Spare:
		return "-"
	case overview.Suspected:
		return "?"
	case overview.Quarantined:
		return "x"
	}
	return " "
}

func (m *model) glyph(p overview.Phase) string {
	text := glyph(p)
	switch p {
	case overview.Training:
		return m.paint.good(text)
	case overview.Hung, overview.Quarantined:
		return m.paint.bad(text)
	case overview.Redone, overview.Suspected, overview.Waiting, overview.Backoff:
		return m.paint.warn(text)
	case overview.Starting, overview.Saving:
		return m.paint.busy(text)
	}
	return m.paint.dim(text)
}

// timeline draws a row for each node, and the generations above.
func (m *model) timeline(t *overview.Timeline) []string {
	const label = 14
	wide := m.width - label - 4
	if wide < 10 {
		return nil
	}
	now := overview.Millis(m.at.UnixMilli())
	to := t.To
	if to == 0 {
		to = now
	}
	each := max(1, float64(to-t.From)/float64(wide))
	column := func(at overview.Millis) int { return min(wide-1, max(0, int(float64(at-t.From)/each))) }
	gens := []rune(strings.Repeat(" ", wide))
	free := 0
	for _, g := range t.Generations {
		text := []rune(fmt.Sprintf("g%d", g.Number))
		if c := column(g.Proposed); c >= free && c+len(text) <= wide {
			copy(gens[c:], text)
			free = c + len(text) + 1
		}
	}
	lines := []string{"  " + pad("", label) + " " + m.paint.dim(string(gens))}
	for _, row := range t.Rows[:min(len(t.Rows), 24)] {
		name := row.Nodes[0]
		if n := len(row.Nodes); n > 1 {
			name = fmt.Sprintf("%s +%d", name, n-1)
		}
		phases := make([]overview.Phase, wide)
		for _, b := range row.Bars {
			end := b.To
			if end == 0 {
				end = to
			}
			for c := column(b.From); c <= column(end-1); c++ {
				phases[c] = b.Phase
			}
		}
		line := "  " + pad(name, label) + " "
		for _, p := range phases {
			line += m.glyph(p)
		}
		lines = append(lines, line)
	}
	span := screen.ShortTime(time.Duration(to-t.From) * time.Millisecond)
	return append(lines, m.paint.dim(cut(fmt.Sprintf("  %s %s until now: █ trained  ▒ made again  + starting  "+
		". waiting  ? suspected  - spare", strings.Repeat(" ", label), span), m.width)))
}

func (m *model) failure(o *overview.Job) (lines []string) {
	if len(o.Failures) == 0 {
		return nil
	}
	f := &o.Failures[0]
	lines = append(lines, m.paint.bad(cut(fmt.Sprintf("  generation %d: %s", f.Generation, f.Text), m.width)))
	detail := strings.Split(strings.TrimSpace(f.Detail), "\n")
	for _, line := range detail[max(0, len(detail)-8):] {
		lines = append(lines, cut("    "+strings.ReplaceAll(line, "\t", "    "), m.width))
	}
	return lines
}

func (m *model) nodes(o *overview.Job) (lines []string) {
	ranks := map[string][]int{}
	for _, seat := range o.Status.World {
		ranks[seat.Node] = seat.Ranks
	}
	for _, n := range o.Status.Nodes {
		where := "-"
		if r := ranks[n.Node]; len(r) == 1 {
			where = fmt.Sprint(r[0])
		} else if len(r) > 1 {
			where = fmt.Sprintf("%d-%d", r[0], r[len(r)-1])
		}
		state := pad(string(n.State), 12)
		switch n.State {
		case status.NodeRunning, status.NodeReady:
			state = m.paint.good(state)
		case status.NodeLost, status.NodeQuarantined:
			state = m.paint.bad(state)
		case status.NodeSuspect, status.NodeWaiting:
			state = m.paint.warn(state)
		}
		why := ""
		if n.Why != nil {
			why = *n.Why
		}
		lines = append(lines, fmt.Sprintf("  %s %s %s %s", pad(n.Node, 16), right(where, 5), state,
			m.paint.dim(cut(why, max(0, m.width-40)))))
	}
	return lines
}

func (m *model) checkpoints(o *overview.Job) (lines []string) {
	if u := o.Status.Untaken; u != nil {
		lines = append(lines, m.paint.warn(cut("  "+u.Text, m.width)))
	}
	most := len(o.Checkpoints)
	if m.tab == tabAll {
		most = min(most, 4)
	}
	for _, c := range o.Checkpoints[:most] {
		mark := ""
		if c.Head {
			mark = " newest"
		}
		text := fmt.Sprintf("%s  step %s  %s  %s ago%s  on %s", right(fmt.Sprint(c.Number), 6),
			known(c.Step, "%d"), screen.Size(c.Bytes), screen.Age(m.at.Sub(c.Time.Time)), mark,
			phrase.List(c.Holders))
		if len(c.Away) > 0 {
			text += "; away: " + phrase.List(c.Away)
		}
		lines = append(lines, cut(text, m.width))
	}
	return lines
}

func (m *model) goodput(r *goodput.Report) (lines []string) {
	if r.Elapsed <= 0 {
		return nil
	}
	for _, b := range goodput.Buckets() {
		if r.Seconds[b] < 0.05 {
			continue
		}
		share := r.Seconds[b] / r.Elapsed
		bar := strings.Repeat("█", int(share*float64(max(0, min(40, m.width-50)))+0.5))
		lines = append(lines, fmt.Sprintf("  %s %s %s %s", pad(goodput.Words(b), 28),
			right(screen.ShortTime(time.Duration(r.Seconds[b]*float64(time.Second))), 8),
			right(fmt.Sprintf("%.1f%%", 100*share), 7), m.paint.dim(bar)))
	}
	return lines
}

func (m *model) events(o *overview.Job) (lines []string) {
	most := len(o.Events)
	if m.tab == tabAll {
		most = min(most, 12)
	}
	for _, e := range slices.Backward(o.Events[len(o.Events)-most:]) {
		lines = append(lines, cut(fmt.Sprintf("  %s  g%d  %s", e.Time.Local().Format("15:04:05.000"),
			e.Generation, e.Text), m.width))
	}
	return lines
}
