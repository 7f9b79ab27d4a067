package overview

import (
	"fmt"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/history"
)

// run is a sequence of commits of one generation with the same number of copies. It includes the
// deletions by agents between them. Commits of a run need no attention of the user.
type run struct {
	events  []history.Event // all events of the run, oldest first
	commits []history.Event
}

// FoldCommits replaces each run of commits by one event. All other events stay, so that the user
// can see them among thousands of saves.
func FoldCommits(events []history.Event) []history.Event {
	var shown []history.Event
	var now run
	for _, e := range events {
		if !now.belongs(&e) {
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

// belongs reports whether e belongs to the run. A run starts with a commit.
func (r *run) belongs(e *history.Event) bool {
	if len(r.commits) == 0 {
		return false
	}
	if !isCommit(e) {
		return e.Kind == history.Deleted && e.Fields["by"] == nil
	}
	last := r.commits[len(r.commits)-1]
	return e.Generation == last.Generation && e.Fields["copies"] == last.Fields["copies"]
}

// isCommit reports whether e is a commit of a save. A checkpoint that was restored is none.
func isCommit(e *history.Event) bool {
	return e.Kind == history.Committed && e.Fields["restored"] == nil && e.Fields["copies"] != nil
}

// folded returns one event for the run, at the time of its last commit. A single commit is
// unchanged.
func (r *run) folded() []history.Event {
	if len(r.commits) < 2 {
		return r.events
	}
	first, last := r.commits[0], r.commits[len(r.commits)-1]
	e := last
	e.Text = fmt.Sprintf("checkpoints %v to %v committed%s since %s: %s each", first.Fields["number"],
		last.Fields["number"], steps(&first, &last), since(&first, &last),
		phrase.Count(history.Field[int](&last, "copies"), "copy"))
	if n := len(r.events) - len(r.commits); n > 0 {
		e.Text += fmt.Sprintf("; older ones deleted: %d", n)
	}
	return []history.Event{e}
}

// steps returns the first and the last step of a run of commits.
func steps(first, last *history.Event) string {
	from, to := history.Field[*int64](first, "step"), history.Field[*int64](last, "step")
	if from == nil || to == nil {
		return ""
	}
	return fmt.Sprintf(" (steps %d to %d)", *from, *to)
}

// since returns the start of a run of commits, with the date if it ended on another day.
func since(first, last *history.Event) string {
	const date, clock = "2006-01-02", "15:04:05"
	from, to := first.Time.Local(), last.Time.Local()
	if from.Format(date) != to.Format(date) {
		return from.Format(date + " " + clock)
	}
	return from.Format(clock)
}
