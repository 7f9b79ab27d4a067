package show

import (
	"context"
	"sort"
	"strconv"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Events is the command that lists the history events of a job.
func Events() command.Command {
	return command.Command{Name: "events", Args: "[JOB]", Most: 1, Usage: "what happened, oldest first",
		Action: eventsAction, Flags: []command.Flag{
			command.JobFlag(),
			{Name: "follow", Short: "f", Kind: command.Boolean, Usage: "go on until the job ends"},
			{Name: "all", Kind: command.Boolean, Usage: "a line for each commit, also for commits in a row"},
			{Name: "verbose", Short: "v", Kind: command.Boolean,
				Usage: "also where the time of each start went"},
			{Name: "since", Arg: "REV", Usage: "only events newer than this rev"},
		}}
}

func eventsAction(ctx context.Context, c *command.Call) error {
	var since int64
	if r := c.Setting("since"); r.Given {
		var err error
		if since, err = strconv.ParseInt(r.Text, 10, 64); err != nil || since < 0 {
			return r.Refuse("not the rev of an event")
		}
	}
	s, snap, err := target.OpenJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	show := func(snap *rendezvous.Snapshot) (bool, error) {
		events := newer(snap.Events, since)
		if n := len(events); n > 0 {
			since = events[n-1].Rev
		}
		if !c.Out.Json && !c.Truth("all") {
			events = overview.FoldCommits(events)
		}
		for _, e := range events {
			if err := showEvent(c, e); err != nil {
				return true, err
			}
		}
		return target.Ended(snap), nil
	}
	if !c.Truth("follow") {
		_, err := show(&snap)
		return err
	}
	return target.Followed{Call: c, Server: s, Seen: &snap}.Follow(ctx, show)
}

// newer returns the events after revision rev, oldest first.
func newer(events []history.Event, rev int64) []history.Event {
	from := sort.Search(len(events), func(i int) bool { return events[i].Rev > rev })
	return events[from:]
}

// eventIndent is the column in which the second line of an event starts on a terminal.
const eventIndent = 4

func showEvent(c *command.Call, e history.Event) error {
	if c.Out.Json {
		return c.Out.Object(e)
	}
	node := e.Node
	if node == "" {
		node = "-"
	}
	text := e.Text
	if e.Kind == history.Started && c.Truth("verbose") {
		if t := history.Field[*rendezvous.Timing](&e, "waterfall"); t != nil {
			text += ": " + t.String()
		}
	}
	return c.Out.Folded(eventIndent, "%s  g%d  %s  %s  %s",
		e.Time.Local().Format("2006-01-02 15:04:05.000"), e.Generation, e.Kind, node, text)
}
