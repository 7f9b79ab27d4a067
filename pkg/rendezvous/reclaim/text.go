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
		return fmt.Sprintf("waiting for %s: no other node has checkpoint %d%s", phrase.List(v.Missing),
			v.Holds.Number, v.blankText())
	case len(v.Missing) > 0:
		return fmt.Sprintf("waiting for %s, to make it again%s", phrase.List(v.Missing), v.blankText())
	}
	return "waiting for other nodes that were in it"
}

// blankText says which of the missing nodes are here.
func (v Verdict) blankText() string {
	switch len(v.Blank) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" (%s is here, in a new job of that name)", v.Blank[0])
	}
	return fmt.Sprintf(" (%s are here, in new jobs of that name)", phrase.List(v.Blank))
}
