package show

import (
	"fmt"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/history"
)

// run is a row of commits of one generation with the same number of copies, and what the agents
// deleted between them: saves that are taken as they should be.
type run struct {
	events  []history.Event // all of them, oldest first
	commits []history.Event
}

// foldCommits replaces each run of commits by one event. What else happened stays as it is, so that
// an operator sees it between thousands of saves.
func foldCommits(events []history.Event) []history.Event {
	var shown []history.Event
	var now run
	for _, e := range events {
		if !now.goesOn(&e) {
			shown = append(shown, now.folded()...)
			now = run{}
		}
		now.events = append(now.events, e)
		if isCommit(&e) {
			now.commits = append(now.commits, e)
		}
	}
	return append(shown, now.folded()...)
}

// goesOn reports whether e belongs to the run. The run begins with a commit.
func (r *run) goesOn(e *history.Event) bool {
	if len(r.commits) == 0 {
		return false
	}
	if !isCommit(e) {
		return e.Kind == history.Deleted && e.Fields["by"] == nil
	}
	last := r.commits[len(r.commits)-1]
	return e.Generation == last.Generation && e.Fields["copies"] == last.Fields["copies"]
}

// isCommit reports whether workers saved the checkpoint. One that an operator restored stands alone.
func isCommit(e *history.Event) bool {
	return e.Kind == history.Committed && e.Fields["restored"] == nil && e.Fields["copies"] != nil
}

// folded is the run as one event with the time of its last commit; a lone commit stays as it is.
func (r *run) folded() []history.Event {
	if len(r.commits) < 2 {
		return r.events
	}
	first, last := r.commits[0], r.commits[len(r.commits)-1]
	copies, _ := last.Fields["copies"].(float64)
	e := last
	e.Text = fmt.Sprintf("checkpoints %v to %v committed%s since %s: %s each", first.Fields["number"],
		last.Fields["number"], steps(&first, &last), since(&first, &last), phrase.Count(int(copies), "copy"))
	if n := len(r.events) - len(r.commits); n > 0 {
		e.Text += fmt.Sprintf("; older ones deleted: %d", n)
	}
	return []history.Event{e}
}

// steps tells from which to which step a run of commits goes.
func steps(first, last *history.Event) string {
	from, ok := first.Fields["step"].(float64)
	to, known := last.Fields["step"].(float64)
	if !ok || !known {
		return ""
	}
	return fmt.Sprintf(" (steps %.0f to %.0f)", from, to)
}

// since is when a run of commits began: with the date, if it ended on another day.
func since(first, last *history.Event) string {
	const date, clock = "2006-01-02", "15:04:05"
	from, to := first.Time.Local(), last.Time.Local()
	if from.Format(date) != to.Format(date) {
		return from.Format(date + " " + clock)
	}
	return from.Format(clock)
}
