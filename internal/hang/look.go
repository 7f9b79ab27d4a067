package hang

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
)

// Verdict is what two looks at all ranks agree on.
type Verdict struct {
	Known  bool   `json:"known"` // a rank differs from the others
	Rank   int    `json:"rank"`
	Node   string `json:"node"`
	Reason string `json:"reason"` // one line
	Stack  string `json:"stack"`  // of its main thread
	// Busy: that rank used a processor or moved bytes, so it may do long work that the others wait for.
	Busy    bool     `json:"busy"`
	Without []string `json:"without"` // nodes that did not answer
}

// lookPause is the time between the two looks. A rank that only passes by stands elsewhere then.
const lookPause = time.Second

// busyRank is the share of a core from which a rank counts as busy.
const busyRank = 0.2

// Look finds the rank that the others wait for, without changing a worker. It looks twice: a rank is
// named only if it stands out for the same reason both times.
func (w *Watch) Look(ctx context.Context) Verdict {
	first, _ := w.look(ctx)
	select {
	case <-ctx.Done():
		return Verdict{}
	case <-time.After(lookPause):
	}
	second, _ := w.look(ctx)
	if first.Rank != second.Rank || first.Known != second.Known {
		second.Known = false
		second.Reason = diagnosis.NoneStandsOut
	}
	second.Busy = second.Busy || first.Busy // a save pauses between two blocks
	return second
}

// look is one look at all ranks.
func (w *Watch) look(ctx context.Context) (Verdict, []Evidence) {
	return w.judge(w.gather(ctx, w.Workers.Look))
}

// Ask looks at all ranks once, from outside of the job.
func (w *Watch) Ask(ctx context.Context) (Verdict, []Evidence) {
	return w.judge(w.gather(ctx, nil))
}

func (w *Watch) judge(seats [][]Evidence, without []string) (Verdict, []Evidence) {
	var all []Evidence
	for _, seat := range seats {
		all = append(all, seat...)
	}
	if len(all) == 0 {
		return Verdict{Reason: "no node answers", Without: without}, nil
	}
	behind := diagnosis.FindBehind(standstills(all, w.size()))
	v := Verdict{Known: behind.Known, Rank: behind.Rank, Node: w.nodeOf(behind.Rank),
		Reason: behind.Reason, Stack: behind.Stack, Without: without}
	for i := range all {
		v.Busy = v.Busy || all[i].Rank == behind.Rank && (all[i].Working || all[i].Busy >= busyRank)
	}
	return v, all
}

// Stall is the verdict on a world that made no step for some time.
func (v Verdict) Stall(quiet time.Duration) *history.Stall {
	return &history.Stall{Quiet: quiet.Seconds(), Known: v.Known, Rank: v.Rank, Node: v.Node,
		Reason: v.Reason, Stack: v.Stack, Busy: v.Busy, Without: v.Without}
}

// Member is the member of the world that has a rank.
func (w *Watch) Member(rank int) membership.Ref { return w.Members[rank/w.Slots] }
