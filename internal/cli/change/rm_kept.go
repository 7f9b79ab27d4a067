package change

import (
	"fmt"

	"github.com/elasticd/elastic/internal/cli/command"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/pkg/schema"
)

// forget removes what this machine keeps of jobs of a name that the server does not have. It returns
// none if the machine keeps nothing.
func (r removal) forget(none error) error {
	kept, err := target.KeptOf(r.c, r.name)
	if err != nil {
		return err
	}
	if kept = others(kept, ""); len(kept) == 0 {
		return none
	}
	r.c.Out.Say("this server has no job %s; this machine keeps:", r.name)
	sayKept(r.c, kept)
	if err := r.c.Confirm("delete it?"); err != nil {
		return err
	}
	return removed(r.c, r.name, kept)
}

// others are the kept data of other jobs than uid.
func others(kept []disk.Kept, uid schema.UID) (all []disk.Kept) {
	for _, k := range kept {
		if k.UID != "" && k.UID != uid {
			all = append(all, k)
		}
	}
	return all
}

// sayKept lists kept data by server and date.
func sayKept(c *command.Call, kept []disk.Kept) {
	for _, k := range kept {
		c.Out.Say("  %s of node %s%s", screen.Size(k.Size(part(c))), k.Node, describe(k))
	}
}

// describe says from which server and when kept data is, and its newest checkpoint.
func describe(k disk.Kept) (text string) {
	if !k.Time.IsZero() {
		text = fmt.Sprintf(", of %s", k.Time.UTC().Format("2006-01-02 15:04"))
	}
	if k.Server != "" {
		text += ", server " + k.Server
	}
	if k.Newest.Number > 0 {
		text += fmt.Sprintf(", checkpoint %d", k.Newest.Number)
	}
	if k.Aside {
		text += ", moved aside"
	}
	return text
}

// askOthers lists what this machine keeps of other jobs of that name, and returns it if the user wants
// to delete it, too. Without a terminal, or with --yes, it stays.
func askOthers(c *command.Call, name schema.Job, uid schema.UID) ([]disk.Kept, error) {
	kept, err := target.KeptOf(c, name)
	if err != nil {
		return nil, err
	}
	if kept = others(kept, uid); len(kept) == 0 {
		return nil, nil
	}
	c.Out.Say("this machine also keeps of other jobs %s:", name)
	sayKept(c, kept)
	if c.Truth("yes") || !screen.IsTerminal(c.Stdin) {
		c.Out.Say("that stays; `elastic rm %s` again deletes it", name)
		return nil, nil
	}
	if no := c.Confirm("delete that, too?"); no != nil {
		if e := screen.KnownProblem(no); e.Err != nil {
			return nil, no
		}
		return nil, nil
	}
	return kept, nil
}
