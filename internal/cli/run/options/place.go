package options

import (
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// defaultJob is the name of a job with given nodes and no name. Paddle uses the same one.
const defaultJob = "default"

// placeNode sets the nodes of a job if all of them are given, or the rank of this node. They come from
// --ips, the variables of a platform, --master-addr and --node-rank, or Paddle's --rank.
func placeNode(c *command.Call, o *node.Options) error {
	ips, listed := target.Ips(c), target.Listed(c)
	switch {
	case listed.Given:
		return byAddress(c, o, listed)
	case ips.Given:
		return byAddress(c, o, ips)
	case c.Setting("rank").Given && o.Job.Limits.Max > 1:
		return byRank(c, o, c.Setting("rank"))
	case target.MasterAddr(c).Given:
		return byRank(c, o, c.Setting("node-rank"))
	case target.Slurm(c) != "":
		return byRank(c, o, command.Setting{Name: "node-rank", Text: c.Getenv("SLURM_NODEID"),
			Origin: "SLURM_NODEID", Given: true})
	}
	return nil
}

// lists returns the flags that name the nodes.
func lists(ips command.Setting) string {
	if ips.Name == "servers" {
		return "--servers and --workers"
	}
	return "--ips"
}

func byAddress(c *command.Call, o *node.Options, ips command.Setting) error {
	hosts := strings.Split(ips.Text, ",")
	for i, h := range hosts {
		hosts[i] = strings.TrimSpace(h)
		if hosts[i] == "" {
			return ips.Refuse("an empty address").Cure("--ips=192.168.0.1,192.168.0.2")
		}
		if slices.Contains(hosts[:i], hosts[i]) {
			return ips.Refuse("%s is there twice", hosts[i]).Because("a node is found by its address").
				Cure("every address once, in the same order on every node")
		}
	}
	own, err := own(c, ips, hosts)
	if err != nil {
		return err
	}
	if np := c.Setting("np"); np.Given && np.Text != strconv.Itoa(len(hosts)) {
		return problem.New(problem.Usage, "%s and %s", np, ips).
			Because("%s says how many nodes there are", ips.Origin).Cure("leave --np out")
	}
	if len(hosts) == 1 && slices.Contains([]string{"127.0.0.1", "localhost"}, hosts[0]) {
		return nil // Paddle's default: only this machine
	}
	o.Job.Hosts, o.Given["ips"] = hosts, ips.Name == "ips"
	o.Job.Limits = rendezvous.Limits{Min: len(hosts), Max: len(hosts)} // so scale cannot change the size
	o.Place = slices.Index(hosts, own) + 1
	o.Host, err = target.Ours(own)
	if err != nil {
		return problem.New(problem.Address, "%s: %s: %v", ips, own, err).
			Of(err).Cure("--host=ADDRESS of this machine, one of --ips")
	}
	o.Node, o.NodeGiven = toName(own, "node"), true
	return nil
}

// own returns the address of this node among those of all nodes.
func own(c *command.Call, ips command.Setting, hosts []string) (string, error) {
	if host := c.Setting("host"); host.Given {
		if !slices.Contains(hosts, host.Text) {
			return "", problem.New(problem.Address, "%s is not among %s", host, ips).
				Because("a node is found by its address").
				Cure("the same %s on every node, with the address of each", lists(ips))
		}
		return host.Text, nil
	}
	var mine []string
	for _, h := range hosts {
		if _, err := target.Ours(h); err == nil {
			mine = append(mine, h)
		}
	}
	switch len(mine) {
	case 1:
		return mine[0], nil
	case 0:
		return "", problem.New(problem.Address, "%s: none is an address of this machine", ips).
			Because("a node is found by its address").
			Cure("the same %s on every node, with the address of each", lists(ips))
	}
	return "", problem.New(problem.Address, "%s: %s are all addresses of this machine", ips,
		strings.Join(mine, ", ")).
		Because("a node is found by its address").Cure("--host=%s, or another of them", mine[0])
}

// byRank sets the rank of this node from a flag.
func byRank(c *command.Call, o *node.Options, rank command.Setting) error {
	if !rank.Given || strings.HasPrefix(rank.Text, "-") { // Paddle's -1 means any rank
		return nil
	}
	n, err := rank.Number(0, 0)
	if err != nil {
		return err
	}
	if n >= o.Job.Limits.Max {
		return rank.Refuse("there are %d nodes, from rank 0", o.Job.Limits.Max)
	}
	o.Place = n + 1
	return nil
}
