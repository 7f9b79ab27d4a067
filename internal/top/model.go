package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/internal/page"
	"github.com/elasticd/elastic/pkg/schema"
)

// tab is a part of one job.
type tab int

const (
	tabAll tab = iota
	tabNodes
	tabCheckpoints
	tabEvents
	tabLines
)

// model is the state of the screen.
type model struct {
	paint         paint
	width, height int
	view          page.View
	ready         bool
	at            time.Time
	row           schema.Job // under the cursor in the list
	job           schema.Job // shown at length; "": the list
	tab           tab
	scroll        int
	lineText      []string // of the newest answer about lines
	typing        bool     // the name of the job is asked for, to stop it
	typed         string
	notice        string

	show  func(schema.Job)
	stop  func(schema.Job) tea.Cmd
	lines func(logs.Query) tea.Cmd
}

func newModel(job schema.Job, p paint) *model {
	return &model{job: job, paint: p, width: 80, height: 24, at: time.Now()}
}

// tick makes ages go on.
type tick time.Time

func (m *model) Init() tea.Cmd { return everySecond() }

func everySecond() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tick(t) })
}

// Update takes one message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		m.at = time.Time(msg)
		return m, everySecond()
	case seen:
		if msg.job == m.job {
			m.view, m.ready, m.at = msg.view, true, time.Now()
		}
	case stopped:
		m.notice = fmt.Sprintf("job %s was asked to save and end", msg.job)
		if msg.err != nil {
			m.notice = msg.err.Error()
		}
	case linesRead:
		m.take(msg)
	case tea.KeyPressMsg:
		if m.typing {
			return m, m.typeName(msg)
		}
		return m, m.press(msg.String())
	}
	return m, nil
}

// take shows lines, if they are of the job that is shown.
func (m *model) take(r linesRead) {
	if r.ask.Job != string(m.job) {
		return
	}
	m.lineText = append([]string{}, r.notes...)
	if r.err != nil {
		m.lineText = append(m.lineText, r.err.Error())
	}
	for _, l := range r.lines {
		who := l.Process
		if who == "" {
			who = fmt.Sprintf("rank %d", l.Rank)
		}
		m.lineText = append(m.lineText, fmt.Sprintf("[%s] %s", who, l.Text))
	}
}

// press acts on a key.
func (m *model) press(key string) tea.Cmd {
	m.notice = ""
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-10)
	case "pgdown", "space":
		m.move(10)
	case "home", "g":
		m.move(-1 << 20)
	case "end", "G":
		m.move(1 << 20)
	case "enter", "right":
		if m.job == "" && m.row != "" {
			m.open(m.row)
		}
	case "esc", "backspace", "left":
		if m.job != "" {
			m.row = m.job
			m.open("")
		}
	case "1", "2", "3", "4":
		m.tab, m.scroll = tab(key[0]-'1'), 0
	case "l":
		if m.job != "" {
			m.tab, m.scroll, m.lineText = tabLines, 0, []string{"reading …"}
			return m.lines(m.culprit())
		}
	case "s":
		if m.chosen() != "" {
			m.typing, m.typed = true, ""
		}
	}
	return nil
}

// culprit asks for the lines of the newest failed worker, else of all workers of the generation.
func (m *model) culprit() logs.Query {
	q := logs.Query{Job: string(m.job)}
	if o := m.view.Job; o != nil {
		q.Generation = uint64(o.Summary.Generation)
		if len(o.Failures) > 0 {
			q.Ranks, q.Generation = []int{o.Failures[0].Rank}, uint64(o.Failures[0].Generation)
		}
	}
	return q
}

// chosen is the job that a key acts on.
func (m *model) chosen() schema.Job {
	if m.job != "" {
		return m.job
	}
	return m.row
}

func (m *model) open(job schema.Job) {
	m.job, m.tab, m.scroll, m.lineText = job, tabAll, 0, nil
	m.ready, m.view.Job = false, nil
	m.show(job)
}

// move moves the cursor of the list, or scrolls a job.
func (m *model) move(by int) {
	if m.job != "" {
		m.scroll = max(0, m.scroll+by)
		return
	}
	if n := len(m.view.Jobs); n > 0 {
		m.row = m.view.Jobs[min(max(m.cursor()+by, 0), n-1)].Job
	}
}

// cursor is the row under the cursor. It stays on its job when the order changes.
func (m *model) cursor() int {
	for i, s := range m.view.Jobs {
		if s.Job == m.row {
			return i
		}
	}
	return 0
}

// typeName takes a key of the name that confirms a stop.
func (m *model) typeName(k tea.KeyPressMsg) tea.Cmd {
	switch key := k.String(); key {
	case "ctrl+c", "esc":
		m.typing = false
	case "backspace":
		if m.typed != "" {
			m.typed = m.typed[:len(m.typed)-1]
		}
	case "enter":
		m.typing = false
		if m.typed == string(m.chosen()) {
			return m.stop(m.chosen())
		}
		m.notice = fmt.Sprintf("not stopped: %q is not the name of the job", m.typed)
	default:
		if text := k.Key().Text; text != "" && len(m.typed) < 64 {
			m.typed += text
		}
	}
	return nil
}

// View draws the screen: head, body, keys.
func (m *model) View() tea.View {
	if m.job == "" && m.row == "" && len(m.view.Jobs) > 0 {
		m.row = m.view.Jobs[0].Job
	}
	head, body, keys := m.listScreen()
	if m.job != "" {
		head, body, keys = m.jobScreen()
	}
	foot := m.paint.dim(cut(keys, m.width))
	switch {
	case m.typing:
		foot = m.paint.warn(cut(fmt.Sprintf("stop job %s? type its name: %s_", m.chosen(), m.typed), m.width))
	case m.notice != "":
		foot = m.paint.warn(cut(m.notice, m.width))
	case m.view.Problem != "":
		foot = m.paint.bad(cut("the store cannot be read: "+m.view.Problem+"; training goes on", m.width))
	}
	room := max(1, m.height-len(head)-1)
	if m.job != "" {
		m.scroll = min(m.scroll, max(0, len(body)-room))
		body = body[m.scroll:]
	}
	body = body[:min(len(body), room)]
	lines := append(head, body...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	v := tea.NewView(strings.Join(append(lines, foot), "\n"))
	v.AltScreen = true
	v.WindowTitle = "elastic top"
	return v
}

// level is the word of a state in its colour.
func (m *model) level(l overview.Level, word string) string {
	switch l {
	case overview.Bad:
		return m.paint.bad(word)
	case overview.Warn:
		return m.paint.warn(word)
	case overview.Busy:
		return m.paint.busy(word)
	case overview.Good:
		return m.paint.good(word)
	}
	return m.paint.dim(word)
}
