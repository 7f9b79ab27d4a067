package reclaim

import (
	"fmt"

	"github.com/elasticd/elastic/internal/phrase"
)

// Text says what a claimed job waits for.
func (v Verdict) Text() string {
	switch {
	case v.Remake != nil:
		return "its nodes are making it again now"
	case v.Other != "":
		return "waiting for the nodes of another job of that name, which claim it too"
	case v.Holds != nil && len(v.Missing) == 0:
		return fmt.Sprintf("it had checkpoint %d, and no node that claims it can read one: "+
			"waiting for a node that can", v.Holds.Number)
	case v.Holds != nil:
		return fmt.Sprintf("waiting for %s: no other node has checkpoint %d", phrase.List(v.Missing),
			v.Holds.Number)
	case len(v.Missing) > 0:
		return fmt.Sprintf("waiting for %s, to make it again", phrase.List(v.Missing))
	}
	return "waiting for other nodes that were in it"
}
