package show

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// Jobs is the command that lists the jobs of a server.
func Jobs() command.Command {
	return command.Command{Name: "jobs", Usage: "the jobs of a server, and their owners",
		Action: jobsAction,
		Flags: []command.Flag{{Name: "mine", Kind: command.Boolean, Usage: "only those that this user began"},
			{Name: "state", Arg: "STATES", Usage: "only those in one of these states, as running,failed"},
			{Name: "owner", Arg: "NAME", Usage: "only those that this user of a machine began"}}}
}

func jobsAction(ctx context.Context, c *command.Call) error {
	states, err := statesAsked(c)
	if err != nil {
		return err
	}
	s, err := target.Open(ctx, c, target.Ask, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	s.TellKind(ctx)
	snaps, broken, err := target.ReadJobs(ctx, s)
	if err != nil {
		return err
	}
	target.Skipped(c, broken)
	all := []status.Status{}
	rows := [][]string{{"JOB", "STATE", "NODES", "GEN", "CKPT", "AGE", "OWNER", "COMMAND"}}
	only := c.Setting("owner")
	for i := range snaps {
		owner := snaps[i].Job.Origin.Owner
		if c.Truth("mine") && owner != c.UserName() || only.Given && owner != only.Text {
			continue
		}
		st := s.Explain(&snaps[i], c.Out.Now())
		if states != nil && !slices.Contains(states, string(shownState(st))) {
			continue
		}
		all = append(all, st)
		rows = append(rows, jobRow(c, st))
	}
	if c.Out.Json {
		return c.Out.Object(all)
	}
	return c.Out.Table(rows)
}

// statesAsked returns the states that --state names; nil: all.
func statesAsked(c *command.Call) ([]string, error) {
	s := c.Setting("state")
	if !s.Given || s.Text == "" {
		return nil, nil
	}
	known := []string{"waiting", "starting", "running", "finishing", "stopping", "done", "failed", "stopped",
		"abandoned"}
	asked := strings.Split(s.Text, ",")
	for _, a := range asked {
		if !slices.Contains(known, a) {
			return nil, s.Refuse("no job is ever "+strconv.Quote(a)).Cure("one of %s", strings.Join(known, ", "))
		}
	}
	return asked, nil
}

// shownState is the state of a job in the table.
func shownState(st status.Status) status.State {
	if st.Abandoned {
		return "abandoned"
	}
	return st.State
}

func jobRow(c *command.Call, st status.Status) []string {
	state, nodes, checkpoint := string(shownState(st)), fmt.Sprintf("%d/%d", st.Wish.Present, st.Wish.NP), "-"
	if st.Exit != nil { // the job has ended, so no node is missing
		nodes = "-"
	}
	if st.Checkpoint != nil {
		checkpoint = fmt.Sprint(st.Checkpoint.Number)
	}
	row := []string{string(st.Job), state, nodes, fmt.Sprint(st.Generation), checkpoint}
	if o := st.Origin; o != nil {
		return append(row, screen.Age(c.Out.Now().Sub(o.Time.Time)), o.Owner+"@"+o.Host,
			strings.Join(o.Command, " "))
	}
	return append(row, "-", "-", "")
}

// originRow returns the user, the machine, the time and the command that started the job.
func originRow(o *status.Origin, p *screen.Printer) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%s on %s, %s: %s",
		o.Owner, o.Host, p.Since(o.Time.Time), strings.Join(o.Command, " "))
}
