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
