package cli

import (
	"context"
	"strconv"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

func eventsCommand() command {
	return command{name: "events", args: "[JOB]", most: 1, usage: "what happened, oldest first", action: eventsAction, flags: []flag{
		jobFlag(),
		{name: "follow", short: "f", kind: boolean, usage: "go on until the job ends"},
		{name: "verbose", short: "v", kind: boolean, usage: "also where the time of each start went"},
		{name: "since", arg: "REV", usage: "only what is newer than this rev of an event"},
	}}
}

func eventsAction(ctx context.Context, c *call) error {
	var since int64
	if r := c.setting("since"); r.given {
		var err error
		if since, err = strconv.ParseInt(r.text, 10, 64); err != nil || since < 0 {
			return r.refuse("not the rev of an event")
		}
	}
	s, name, err := c.jobServer(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := c.job(ctx, s, name, true)
	if err != nil {
		return err
	}
	show := func(snap *rendezvous.Snapshot) (bool, error) {
		for _, e := range snap.Events {
			if e.Rev <= since {
				continue
			}
			since = e.Rev
			if err := c.showEvent(e); err != nil {
				return true, err
			}
		}
		return ended(snap), nil
	}
	if !c.context.Bool("follow") {
		_, err := show(&snap)
		return err
	}
	return c.follow(ctx, s, &snap, show)
}

func (c *call) showEvent(e history.Event) error {
	if c.out.json {
		return c.out.object(e)
	}
	node := e.Node
	if node == "" {
		node = "-"
	}
	text := e.Text
	if f := rendezvous.TimingOf(e); f != nil && c.context.Bool("verbose") {
		text += ": " + f.String()
	}
	return c.out.line("%s  g%d  %s  %s  %s", e.Time.Local().Format("2006-01-02 15:04:05.000"), e.Generation, e.Kind, node, text)
}
