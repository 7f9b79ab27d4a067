package target

import (
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/pkg/schema"
)

// KeptOf lists the data that nodes of this host keep of all jobs of that name, also of other servers.
func KeptOf(c *command.Call, name schema.Job) ([]disk.Kept, error) {
	state, err := local.State(c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return nil, err
	}
	return disk.KeptOf(state, name)
}

// Kept lists the data that nodes of this host keep of the job with that uid.
func Kept(c *command.Call, name schema.Job, uid schema.UID) (mine []disk.Kept, err error) {
	all, err := KeptOf(c, name)
	for _, k := range all {
		if k.UID == uid {
			mine = append(mine, k)
		}
	}
	return mine, err
}
