// Package show has the commands that show a job: status, explain, nodes, jobs, events, logs,
// goodput and ready.
package show

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// Status is the command that shows one job.
func Status() command.Command {
	return command.Command{Name: "status", Args: "[JOB]", Most: 1, Usage: "what is happening, and why",
		Action: statusAction,
		Flags: []command.Flag{command.JobFlag(),
			{Name: "watch", Short: "w", Kind: command.Boolean,
				Usage: "again after every change, until the job ends"},
			{Name: "verbose", Short: "v", Kind: command.Boolean,
				Usage: "also where the time of the newest start went"}}}
}

func statusAction(ctx context.Context, c *command.Call) error {
	s, name, err := target.JobServer(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	s.TellKind(ctx)
	s.TellSilent(ctx)
	snap, err := target.JobOrNewest(ctx, c, s, name)
	if err != nil {
		return err
	}
	if !c.Truth("watch") {
		return showStatus(c, s.Explain(&snap, c.Out.Now()))
	}
	return watchStatus(ctx, c, s, snap)
}

// watchStatus shows the job after each change. On a terminal it updates the screen in place, and
// also every second, because it shows relative times.
func watchStatus(ctx context.Context, c *command.Call, s *target.Server, first rendezvous.Snapshot) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	snaps := make(chan *rendezvous.Snapshot)
	followed := make(chan error, 1)
	go func() {
		followed <- target.Followed{Call: c, Server: s, Seen: &first}.Follow(ctx,
			func(snap *rendezvous.Snapshot) (bool, error) {
				select {
				case snaps <- snap:
				case <-ctx.Done():
				}
				return target.Ended(snap), nil
			})
	}()
	var tick <-chan time.Time
	if c.Out.Terminal && !c.Out.Json {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		tick = t.C
	}
	var snap *rendezvous.Snapshot
	last := ""
	for {
		select {
		case err := <-followed:
			return err
		case snap = <-snaps:
			s.TellSilent(ctx)
		case <-tick:
		}
		if snap == nil {
			continue
		}
		show := *c
		var b strings.Builder
		show.Out.Out = &b
		if err := showStatus(&show, s.Explain(snap, c.Out.Now())); err != nil {
			return err
		}
		if b.String() == last {
			continue
		}
		switch {
		case tick != nil:
			io.WriteString(c.Stdout, "\x1b[H\x1b[2J")
		case last != "" && !c.Out.Json:
			io.WriteString(c.Stdout, "\n")
		}
		last = b.String()
		if _, err := io.WriteString(c.Stdout, last); err != nil {
			cancel(err)
			<-followed
			return err
		}
	}
}

func showStatus(c *command.Call, st status.Status) error {
	p := &c.Out
	if p.Json {
		return p.Object(st)
	}
	if p.Quiet {
		return p.Line("%s", st.State)
	}
	state := string(st.State)
	if st.Abandoned {
		state = "abandoned"
	}
	head := screen.Fold(phrase.Plain(fmt.Sprintf("%s  %s: %s", st.Job, state, st.Why)), p.Width, 2)
	if err := p.Painted(head, state); err != nil {
		return err
	}
	rows := statusRows(st, p)
	if c.Truth("verbose") {
		rows = append(rows, [2]string{"last start", timing(st.Waterfall)})
	}
	for _, row := range rows {
		if row[1] == "" {
			continue
		}
		if err := p.Folded(14, "  %-11s %s", row[0], row[1]); err != nil {
			return err
		}
	}
	if err := failureLines(c, st); err != nil {
		return err
	}
	if err := nodeTable(c, st); err != nil {
		return err
	}
	if st.Next != nil {
		return p.Folded(6, "next: %s", *st.Next)
	}
	return nil
}

// failureRow returns the row of the newest failure. If that failure ended the job, its details are
// below the table.
func failureRow(f *status.Failure, p *screen.Printer) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%s (generation %d, %s)", f.Text, f.Generation, p.Since(f.Time.Time))
}

// failureLines prints the traceback of the failure that ended a job, and the workers that failed
// because of it.
func failureLines(c *command.Call, st status.Status) error {
	if st.Exit == nil || st.Exit.Failure == nil {
		return nil
	}
	for _, line := range st.Exit.Failure.Lines() {
		if err := c.Out.Line("    %s", strings.ReplaceAll(line, "\t", "    ")); err != nil {
			return err
		}
	}
	return nil
}

func statusRows(st status.Status, p *screen.Printer) [][2]string {
	w := st.Wish
	np := fmt.Sprintf("%d (%d here)", w.NP, w.Present)
	if w.Min != w.Max {
		np = fmt.Sprintf("%d of %d:%d (%d here)", w.NP, w.Min, w.Max, w.Present)
	}
	np += fmt.Sprintf(", %s a node", phrase.Count(w.Slots, "worker"))
	generation := ""
	if st.Generation > 0 {
		generation = fmt.Sprintf("%d, world size %d, %s", st.Generation, st.WorldSize, p.Since(st.Since.Time))
	}
	restarts := fmt.Sprintf("%d of %d used", st.Restarts.Used, st.Restarts.Max)
	servers := ""
	if st.Server != nil {
		servers = fmt.Sprintf("%s (%s)", strings.Join(st.Server.Endpoints, ", "), st.Server.Kind)
		if silent := st.Server.Silent; len(silent) > 0 {
			servers += "; no answer from " + phrase.List(silent) + ": start it again, the others go on meanwhile"
		}
	}
	return [][2]string{{"job", originRow(st.Origin, p)}, {"np", np}, {"generation", generation},
		{"progress", progress(st.Progress, p)}, {"note", note(st.Progress)}, {"doing", doing(st.Doing)},
		{"checkpoint", checkpointRow(&st, p)}, {"batch, rate", planRow(st)},
		{"failure", failureRow(st.Failure, p)},
		{"restarts", restarts}, {"unreadable", unreadRow(st.Unread)}, {"server", servers}}
}

// unreadRow names the records that were left out, and what deletes one.
func unreadRow(all []status.Unread) string {
	var keys []string
	for _, u := range all {
		keys = append(keys, phrase.Brief(u.Why))
	}
	if len(keys) == 0 {
		return ""
	}
	const most = 3
	more := ""
	if n := len(keys) - most; n > 0 {
		keys, more = keys[:most], fmt.Sprintf("; and %d more", n)
	}
	const longest = 200 // of all names that are accepted
	one := all[0].Key
	if len(one) > longest {
		one = "--prefix " + one[:longest]
	}
	return fmt.Sprintf("left out: %s%s; delete one: etcdctl del %s", strings.Join(keys, "; "), more, one)
}

func timing(f *rendezvous.Timing) string {
	if f == nil {
		return ""
	}
	return f.String()
}

func progress(g *status.Progress, p *screen.Printer) string {
	if g == nil {
		return ""
	}
	var parts []string
	if g.Step != nil {
		parts = append(parts, fmt.Sprintf("step %d", *g.Step))
	}
	if g.Loss != nil {
		parts = append(parts, "loss "+strconv.FormatFloat(*g.Loss, 'g', 4, 64))
	}
	if g.SamplesPerSecond != nil {
		parts = append(parts, fmt.Sprintf("%.1f samples/s", *g.SamplesPerSecond))
	}
	if g.Done != nil {
		parts = append(parts, fmt.Sprintf("%d%% done", int(100**g.Done)))
	}
	if g.LeftSeconds != nil {
		parts = append(parts, screen.ShortTime(time.Duration(*g.LeftSeconds*float64(time.Second)))+" left")
	}
	parts = append(parts, p.Since(g.Time.Time))
	if g.Stale {
		parts = append(parts, "stale")
	}
	return strings.Join(parts, ", ")
}

func note(g *status.Progress) string {
	if g == nil {
		return ""
	}
	return g.Note
}

func doing(all []status.Activity) string {
	var parts []string
	for _, d := range all {
		text := d.Node + " " + d.What
		if d.Total > 0 {
			text += fmt.Sprintf(" %s of %s", screen.Size(d.Done), screen.Size(d.Total))
		}
		parts = append(parts, text)
	}
	return phrase.List(parts)
}

func checkpointRow(st *status.Status, p *screen.Printer) string {
	text := headText(st.Checkpoint, p)
	if u := st.Untaken; u != nil {
		text += fmt.Sprintf("; %s (%s)", u.Text, p.Since(u.Time.Time))
	}
	return text
}

func headText(k *status.Checkpoint, p *screen.Printer) string {
	if k == nil {
		return "none yet"
	}
	text := strconv.FormatUint(uint64(k.Number), 10)
	if k.Step != nil {
		text += fmt.Sprintf(" (step %d)", *k.Step)
	}
	text += fmt.Sprintf(", %s, %s", screen.Size(k.Bytes), p.Since(k.Time.Time))
	parts := ""
	if k.Parts > 0 {
		parts = fmt.Sprintf("%d parts ", k.Parts)
	}
	switch {
	case len(k.Holders) == 0:
		return text + ", on no node that is here"
	case k.Copies == 0:
		return text + ", parts of it are on no node that is here"
	case k.Copies < k.Replicas:
		return text + fmt.Sprintf(", unprotected: %s of %d, %son %s",
			phrase.Count(k.Copies, "copy"), k.Replicas, parts, phrase.List(k.Holders))
	}
	return text + ", " + parts + "on " + phrase.List(k.Holders)
}

func planRow(st status.Status) string {
	if st.Plan == nil {
		return ""
	}
	var parts []string
	if b := st.Plan.GlobalBatch; b > 0 {
		parts = append(parts, fmt.Sprintf("batch %d", b))
		if a := st.Plan.GradAccum; a > 1 {
			parts = append(parts, fmt.Sprintf("accumulated over %d", a))
		}
	}
	if st.Plan.LR > 0 {
		parts = append(parts, "rate "+strconv.FormatFloat(st.Plan.LR, 'g', 6, 64))
	}
	return strings.Join(append(parts, string(st.Plan.Policy)), ", ")
}
