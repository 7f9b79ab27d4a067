package options

import (
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
)

// address sets the address that other nodes dial. With the local server it is 127.0.0.1, because no
// other machine can join. Else it is the given address, or empty until the route to the server is
// known.
func address(c *command.Call, o *node.Options) error {
	host := c.Setting("host")
	isLocal := !target.Remote(c)
	if len(o.Job.Hosts) > 0 {
		return nil // the address is one of --ips
	}
	if host.Given && (!isLocal || host.Origin == "--host") {
		ip, err := target.Ours(host.Text)
		if err != nil {
			return problem.New(problem.Address, "%s: %v", host, err).Of(err).
				Because("--host is what this node tells the others to dial").
				Cure("--host=ADDRESS of this machine that other nodes reach")
		}
		o.Host = ip
	}
	if isLocal {
		o.Host = "127.0.0.1"
	}
	return nil
}
