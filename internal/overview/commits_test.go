package overview

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/schema"
)

// played makes events as they are read from the store, a minute apart.
type played struct {
	t      *testing.T
	events []history.Event
}

func (p *played) add(g schema.Generation, kind history.Kind, fields history.Fields) {
	at := time.Date(2026, 11, 22, 23, 50+len(p.events), 0, 0, time.Local)
	e := history.Event{Time: at, Generation: g, Kind: kind,
		Text: fmt.Sprintf("%s %v", kind, fields["number"]), Fields: fields}
	record, err := json.Marshal(e)
	if err != nil {
		p.t.Fatal(err)
	}
	var read history.Event
	if err := json.Unmarshal(record, &read); err != nil {
		p.t.Fatal(err)
	}
	p.events = append(p.events, read)
}

func (p *played) commit(g schema.Generation, number, copies int) {
	p.add(g, history.Committed, history.Fields{"number": number, "step": 10 * number, "copies": copies})
}

// Commits in a row are one line; whatever else happened keeps its own.
func TestFoldCommits(t *testing.T) {
	type fields = history.Fields
	for name, c := range map[string]struct {
		play func(*played)
		want []string
	}{
		"one alone": {func(p *played) {
			p.add(1, history.WorldRunning, nil)
			p.commit(1, 1, 2)
			p.add(1, history.Deleted, fields{"number": 0, "by": nil})
		}, []string{"world_running <nil>", "checkpoint_committed 1", "checkpoint_deleted 0"}},
		"a loss between": {func(p *played) {
			p.commit(1, 1, 2)
			p.commit(1, 2, 2)
			p.add(1, history.NodeLost, nil)
			p.commit(2, 3, 2)
			p.commit(2, 4, 2)
			p.commit(2, 5, 2)
		}, []string{"checkpoints 1 to 2 committed (steps 10 to 20) since 23:50:00: 2 copies each",
			"node_lost <nil>",
			"checkpoints 3 to 5 committed (steps 30 to 50) since 23:53:00: 2 copies each"}},
		"another generation": {func(p *played) {
			p.commit(1, 1, 2)
			p.commit(2, 2, 2)
		}, []string{"checkpoint_committed 1", "checkpoint_committed 2"}},
		"fewer copies": {func(p *played) {
			p.commit(1, 1, 2)
			p.commit(1, 2, 2)
			p.commit(1, 3, 1)
			p.commit(1, 4, 1)
		}, []string{"checkpoints 1 to 2 committed (steps 10 to 20) since 23:50:00: 2 copies each",
			"checkpoints 3 to 4 committed (steps 30 to 40) since 23:52:00: 1 copy each"}},
		"what the agents delete": {func(p *played) {
			p.commit(1, 4, 2)
			p.add(1, history.Deleted, fields{"number": 1, "by": nil})
			p.commit(1, 5, 2)
			p.add(1, history.Deleted, fields{"number": 2, "by": nil})
		}, []string{"checkpoints 4 to 5 committed (steps 40 to 50) since 23:50:00: 2 copies each; older " +
			"ones deleted: 2"}},
		"what an operator deletes and restores": {func(p *played) {
			p.commit(1, 4, 2)
			p.add(1, history.Deleted, fields{"number": 1, "by": "the operator"})
			p.commit(1, 5, 2)
			p.add(1, history.Committed, fields{"number": 6, "restored": 4, "copies": 2})
			p.commit(1, 7, 2)
		}, []string{"checkpoint_committed 4", "checkpoint_deleted 1", "checkpoint_committed 5",
			"checkpoint_committed 6", "checkpoint_committed 7"}},
		"a save that was refused": {func(p *played) {
			p.commit(1, 1, 2)
			p.add(1, history.Refused, nil)
			p.commit(1, 2, 2)
		}, []string{"checkpoint_committed 1", "checkpoint_refused <nil>", "checkpoint_committed 2"}},
		"steps that are not reported": {func(p *played) {
			p.add(1, history.Committed, fields{"number": 1, "step": nil, "copies": 1})
			p.add(1, history.Committed, fields{"number": 2, "step": nil, "copies": 1})
		}, []string{"checkpoints 1 to 2 committed since 23:50:00: 1 copy each"}},
		"over midnight": {func(p *played) {
			for n := range 12 {
				p.commit(1, n, 2)
			}
		}, []string{"checkpoints 0 to 11 committed (steps 0 to 110) since 2026-11-22 23:50:00: 2 copies each"}},
		"nothing": {func(*played) {}, nil},
	} {
		p := &played{t: t}
		c.play(p)
		var got []string
		for _, e := range FoldCommits(p.events) {
			got = append(got, e.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, c.want)
		}
	}
}

// The line of a run has the time of its last commit.
func TestFoldedCommitsEndWithTheLast(t *testing.T) {
	p := &played{t: t}
	p.commit(1, 1, 2)
	p.commit(1, 2, 2)
	folded := FoldCommits(p.events)
	if len(folded) != 1 || !folded[0].Time.Equal(p.events[1].Time) {
		t.Errorf("%v", folded)
	}
}
