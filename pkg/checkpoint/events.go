package checkpoint

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/history"
)

// committedEvent is written together with a commit.
func committedEvent(h manifest.Head) history.Event {
	var holders []string
	copies := "copies"
	if h.Copies == 1 {
		copies = "copy"
	}
	if h.Parts != nil {
		copies += fmt.Sprintf(" of each of %d parts", len(h.Parts))
	}
	for _, r := range h.Holders {
		holders = append(holders, r.Node)
	}
	return history.Event{Kind: history.Committed, Generation: h.Generation,
		Text: fmt.Sprintf("checkpoint %d committed%s: %d %s", h.Number, AtStep(h.Step), h.Copies, copies),
		Fields: history.Fields{"number": h.Number, "step": h.Step, "samples": h.Samples, "bytes": h.Bytes,
			"holders": holders, "copies": h.Copies, "seconds": time.Since(h.Time).Seconds()}}
}

// offeredEvent is written together with the record of an offered checkpoint. was is its number
// in the earlier job.
func offeredEvent(node string, h manifest.Head, was manifest.Number) history.Event {
	return history.Event{Kind: history.Offered, Generation: h.Generation, Node: node,
		Text: fmt.Sprintf("%s brought checkpoint %d%s of an earlier job of this name, which began from "+
			"another one: it is checkpoint %d now; elastic ckpt restore %d goes on from it",
			node, was, AtStep(h.Step), h.Number, h.Number),
		Fields: history.Fields{"number": h.Number, "was": was, "step": h.Step, "bytes": h.Bytes}}
}

// deletedEvents are written together with the removal of records. by is the operator that asked for
// it; "": agents removed them.
func deletedEvents(hs []manifest.Head, by string) []history.Event {
	var events []history.Event
	for _, h := range hs {
		text := fmt.Sprintf("checkpoint %d deleted", h.Number)
		fields := history.Fields{"number": h.Number, "by": nil}
		if by != "" {
			text += " by " + by
			fields["by"] = by
		}
		events = append(events, history.Event{Kind: history.Deleted, Generation: h.Generation,
			Text: text, Fields: fields})
	}
	return events
}

// AtStep formats a step for a message.
func AtStep(step *int64) string {
	if step == nil {
		return ""
	}
	return fmt.Sprintf(" (step %d)", *step)
}
