package agent

import (
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// startedGroup is the newest group of workers. group is set before ready is closed.
type startedGroup struct {
	ready chan struct{}
	group Group
}

// startWorkers starts new processes for a generation.
func (l *loop) startWorkers(ctx context.Context, a message.StartWorkers, started *startedGroup) message.Event {
	s, g := a.Start, a.World.Generation
	failed := func(err error) message.Event {
		code := 125
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			code = coded.ExitCode()
		}
		return message.Started{Generation: g, Err: err, Code: code}
	}
	if s.Unprepared {
		var err error
		if s.Resume, err = l.prepareLate(ctx, s.World); err != nil {
			return failed(err)
		}
	}
	if s.Waits {
		if !joining.OthersStay(ctx, l.Peers, s.World.Members[:s.Rank]) {
			return failed(errors.New("the workers of the others do not stay"))
		}
	} else {
		s.Endpoints = l.endpoints(ctx, &s.World)
		l.Saves.Open(s.World, s.Rank)
	}
	group, err := l.Workers.Start(ctx, s)
	if err != nil {
		return failed(err)
	}
	started.group = group
	close(started.ready)
	l.forwardHangs(ctx, group, g)
	l.effects.Go(func() {
		for e := range group.Events() {
			l.send(ctx, e)
		}
		<-group.Done()
		l.send(ctx, message.Halted{Generation: group.Generation()})
	})
	return message.Started{Generation: g}
}

// endpoints returns the endpoints of the workers of w; nil if they cannot be read. Most programs
// need none, and the others report the lack.
func (l *loop) endpoints(ctx context.Context, w *rendezvous.World) []string {
	if known, ok := l.members.Endpoints(w.Proposal); ok {
		return known
	}
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found, err := l.requests.Endpoints(short, w)
	if err != nil {
		return nil
	}
	return found
}

// forwardHangs passes on the hangs of a group in generation g.
func (l *loop) forwardHangs(ctx context.Context, group Group, g schema.Generation) {
	hangs := group.Hangs()
	l.effects.Go(func() {
		for f := range hangs {
			l.send(ctx, message.Hung{Generation: g, Failure: f})
		}
	})
}

// prepareLimit is how long a checkpoint may take to be brought here after Ready.
const prepareLimit = 30 * time.Second

// prepareLate brings the checkpoint here for new processes. They replace workers that held the
// state, and that ended after Ready was reported.
func (l *loop) prepareLate(ctx context.Context, w rendezvous.World) (message.Resume, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	return l.Saves.Prepare(ctx, w)
}

// continueWorkers gives the World to workers that wait for it. If one of them has ended, it ends
// all and starts new ones. No process of the old group is left then.
func (l *loop) continueWorkers(ctx context.Context, s message.Start, from, to *startedGroup) message.Event {
	g := s.World.Generation
	<-from.ready // closed already: only started workers are paused
	s.Endpoints = l.endpoints(ctx, &s.World)
	l.Saves.Open(s.World, s.Rank)
	if err := from.group.Continue(ctx, s); err != nil {
		err := from.group.Stop(ctx, message.ShortGrace)
		if err == nil {
			err = l.Saves.Close(ctx, g) // Prepare then writes files that are no save of g
		}
		if err != nil {
			return message.Started{Generation: g, Err: err, Code: 125} // the agent is ending
		}
		return l.startWorkers(ctx, message.StartWorkers{Start: s}, to)
	}
	to.group = from.group
	close(to.ready)
	l.forwardHangs(ctx, to.group, g)
	return message.Started{Generation: g}
}

// pauseWorkers makes a group leave its generation. Ending the group replaces it.
func (l *loop) pauseWorkers(ctx context.Context, g schema.Generation) {
	started := l.group
	l.newestEffect(context.WithoutCancel(ctx), "halt", func(ctx context.Context) message.Event {
		<-started.ready // closed already: the machine pauses workers only after Started
		held, err := started.group.Pause(ctx)
		return message.Paused{Generation: g, Held: held, Err: err}
	})
}

// haltWorkers ends a group. A harder way replaces a softer one that is under way. The group itself
// reports when no process is left.
func (l *loop) haltWorkers(ctx context.Context, a message.HaltWorkers) {
	started := l.group
	// This goes on after the end of the agent: no worker may outlive it.
	l.newestEffect(context.WithoutCancel(ctx), "halt", func(ctx context.Context) message.Event {
		<-started.ready // closed already: the machine ends workers only after Started
		if a.How == message.HaltAsked {
			// Stop gives all of them the same time, and does not ask again.
			_ = started.group.Ask(a.Reason, a.Grace) // Stop ends workers that could not be asked
		}
		_ = started.group.Stop(ctx, a.Grace) // returns early only if replaced
		return nil
	})
}
