package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/internal/phrase"
)

// column is one column of the list. It is left out if the terminal is narrower than least.
type column struct {
	title string
	width int
	least int
	text  func(*overview.Summary, time.Time) string
}

func columns() []column {
	return []column{
		{"NODES", 6, 0, func(s *overview.Summary, _ time.Time) string {
			if s.Level == overview.Over {
				return "-"
			}
			return fmt.Sprintf("%d/%d", s.Present, s.NP)
		}},
		{"STEP", 9, 70, func(s *overview.Summary, _ time.Time) string { return known(s.Step, "%d") }},
		{"RATE", 8, 90, func(s *overview.Summary, _ time.Time) string { return known(s.Rate, "%.0f/s") }},
		{"LEFT", 8, 100, func(s *overview.Summary, _ time.Time) string {
			if s.Left == nil {
				return "-"
			}
			return screen.ShortTime(time.Duration(*s.Left * float64(time.Second)))
		}},
		{"SAVED", 7, 56, func(s *overview.Summary, now time.Time) string {
			if s.Checkpoint == nil {
				return "never"
			}
			return ageOf(s.Checkpoint.Time, now)
		}},
		{"COPIES", 7, 110, func(s *overview.Summary, _ time.Time) string {
			if s.Checkpoint == nil {
				return "-"
			}
			return fmt.Sprintf("%d/%d", s.Checkpoint.Copies, s.Checkpoint.Wanted)
		}},
		{"RESTARTS", 9, 120, func(s *overview.Summary, _ time.Time) string {
			return fmt.Sprintf("%d/%d", s.Restarts.Used, s.Restarts.Max)
		}},
		{"KEPT", 7, 80, func(s *overview.Summary, _ time.Time) string {
			if s.Kept == nil {
				return "-"
			}
			return fmt.Sprintf("%.1f%%", 100**s.Kept)
		}},
	}
}

// listScreen is the list of jobs, the worst first.
func (m *model) listScreen() (head, body []string, keys string) {
	keys = "enter job  s stop  j k move  q quit"
	if !m.ready {
		return []string{m.paint.dim("reading …")}, nil, keys
	}
	counts := map[overview.Level]int{}
	for _, s := range m.view.Jobs {
		counts[s.Level]++
	}
	title := phrase.Count(len(m.view.Jobs), "job")
	for _, l := range []struct {
		level overview.Level
		words string
	}{{overview.Bad, "failed"}, {overview.Warn, "to look at"}, {overview.Busy, "changing"},
		{overview.Good, "training"}, {overview.Over, "ended"}} {
		if n := counts[l.level]; n > 0 {
			title += fmt.Sprintf(", %d %s", n, l.words)
		}
	}
	head = []string{m.paint.bold(cut(title, m.width)), m.paint.dim(cut(m.healthText(), m.width)), ""}
	if len(m.view.Jobs) == 0 {
		return head, []string{"no jobs yet: elastic run begins one"}, keys
	}
	job := m.nameWidth()
	row := "  " + pad("JOB", job) + " " + pad("STATE", 10)
	for _, c := range m.columns() {
		row += right(c.title, c.width)
	}
	head = append(head, m.paint.dim(cut(row+"  WHY", m.width)))
	at := m.cursor()
	room := max(1, m.height-len(head)-1)
	from := max(0, at-room+1)
	for i := from; i < len(m.view.Jobs); i++ {
		body = append(body, m.listRow(i))
	}
	return head, body, keys
}

// nameWidth is the width of the longest name, within limits.
func (m *model) nameWidth() int {
	width := 4
	for _, s := range m.view.Jobs {
		width = max(width, len(s.Job))
	}
	return min(width, max(8, m.width/4))
}

// columns returns those that fit.
func (m *model) columns() (fit []column) {
	for _, c := range columns() {
		if m.width >= c.least {
			fit = append(fit, c)
		}
	}
	return fit
}

// listRow is the row of the i-th job.
func (m *model) listRow(i int) string {
	s, here, arrow := &m.view.Jobs[i], i == m.cursor(), "  "
	if here {
		arrow = "> "
	}
	name, state := pad(string(s.Job), m.nameWidth()), pad(s.State, 10)
	rest := ""
	for _, c := range m.columns() {
		rest += right(c.text(s, m.at), c.width)
	}
	why := s.Why
	if len(s.Notes) > 0 {
		why = strings.Join(s.Notes, ", ") + "; " + why
	}
	used := 2 + len([]rune(name)) + 1 + 10 + len([]rune(rest)) + 2
	why = cut(why, max(0, m.width-used))
	if here {
		return m.paint.over(cut(arrow+name+" "+state+rest+"  "+why, m.width))
	}
	return arrow + name + " " + m.level(s.Level, state) + rest + "  " + m.paint.dim(why)
}

// healthText says which server this is, and how it is.
func (m *model) healthText() string {
	h := m.view.Health
	if h == nil {
		return ""
	}
	text := h.Kind + " " + h.Name
	for _, member := range h.Members {
		switch {
		case member.Down:
			text += "; " + member.Name + " does not answer"
		case member.Leader:
			text += "; leader " + member.Name
		}
	}
	for _, w := range h.Warnings {
		text += "; " + w
	}
	return text
}

func ageOf(at overview.Millis, now time.Time) string {
	return screen.Age(now.Sub(time.UnixMilli(int64(at))))
}
