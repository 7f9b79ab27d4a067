package cli

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// sharedPort is that of a server which an agent starts for all nodes, where none was named. It is torch's.
const sharedPort = "29400"

// defaultJob is what a job with given nodes is called where nobody named it, as Paddle calls it.
const defaultJob = "default"

// fixed settles a job whose nodes are all given, or this node's rank among them: by --ips, by a platform's
// variables, or by --master-addr and --node-rank.
func (c *call) fixed(o *node.Options) error {
	ips := c.ips()
	switch {
	case ips.given:
		return c.byAddress(o, ips)
	case c.masterAddr().given:
		return c.byRank(o, c.setting("node-rank"))
	case c.slurm() != "":
		return c.byRank(o, setting{name: "node-rank", text: c.Getenv("SLURM_NODEID"), origin: "SLURM_NODEID", given: true})
	}
	return nil
}

// ips are the addresses of all nodes: --ips, or what PaddleCloud's platform says. A server that was given takes
// their place: then the nodes find one another there.
func (c *call) ips() setting {
	s := c.setting("ips")
	if s.given || c.given().given {
		return s
	}
	for _, name := range []string{"PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID", "TRAINER_PORTS_NUM"} {
		if c.Getenv(name) == "" {
			return s
		}
	}
	return setting{name: "ips", text: c.Getenv("PADDLE_TRAINERS"), origin: "PADDLE_TRAINERS", given: true}
}

func (c *call) byAddress(o *node.Options, ips setting) error {
	hosts := strings.Split(ips.text, ",")
	for i, h := range hosts {
		hosts[i] = strings.TrimSpace(h)
		if hosts[i] == "" {
			return ips.refuse("an empty address").cure("--ips=192.168.0.1,192.168.0.2")
		}
		if slices.Contains(hosts[:i], hosts[i]) {
			return ips.refuse("%s is there twice", hosts[i]).because("a node is found by its address").
				cure("every address once, in the same order on every node")
		}
	}
	own, err := c.own(ips, hosts)
	if err != nil {
		return err
	}
	if np := c.setting("np"); np.given && np.text != strconv.Itoa(len(hosts)) {
		return fail(Usage, "%s and %s", np, ips).because("--ips says how many nodes there are").cure("leave --np out")
	}
	if len(hosts) == 1 && slices.Contains([]string{"127.0.0.1", "localhost"}, hosts[0]) {
		return nil // Paddle's default: this machine alone
	}
	o.Job.Hosts, o.Given["ips"] = hosts, true
	o.Job.Limits = rendezvous.Limits{Min: len(hosts), Max: len(hosts)} // scale stays inside
	o.Place = slices.Index(hosts, own) + 1
	o.Host, err = ours(own)
	if err != nil {
		return fail(Address, "%s: %s: %v", ips, own, err).of(err).cure("--host=ADDRESS of this machine, one of --ips")
	}
	o.Node, o.NodeGiven = tame(own, "node"), true
	return nil
}

// own is the address of this node among those of all.
func (c *call) own(ips setting, hosts []string) (string, error) {
	if host := c.setting("host"); host.given {
		if !slices.Contains(hosts, host.text) {
			return "", fail(Address, "%s is not among %s", host, ips).because("a node is found by its address").
				cure("the same --ips on every node, with the address of each")
		}
		return host.text, nil
	}
	var mine []string
	for _, h := range hosts {
		if _, err := ours(h); err == nil {
			mine = append(mine, h)
		}
	}
	switch len(mine) {
	case 1:
		return mine[0], nil
	case 0:
		return "", fail(Address, "%s: none is an address of this machine", ips).because("a node is found by its address").
			cure("the same --ips on every node, with the address of each")
	}
	return "", fail(Address, "%s: %s are all addresses of this machine", ips, strings.Join(mine, ", ")).
		because("a node is found by its address").cure("--host=%s, or another of them", mine[0])
}

// byRank gives this node the rank that it was told.
func (c *call) byRank(o *node.Options, rank setting) error {
	if !rank.given || strings.HasPrefix(rank.text, "-") { // Paddle's -1 is: any
		return nil
	}
	n, err := rank.number(0, 0)
	if err != nil {
		return err
	}
	if n >= o.Job.Limits.Max {
		return rank.refuse("there are %d nodes, from rank 0", o.Job.Limits.Max)
	}
	o.Place = n + 1
	return nil
}

// masterAddr is torchrun's address of the first node, where there are others.
func (c *call) masterAddr() setting {
	s := c.setting("master-addr")
	np := c.setting("np")
	if !s.given || !np.given || np.text == "1" || np.text == "1:1" || c.given().given || c.setting("rdzv-endpoint").given {
		return setting{name: "master-addr", origin: "--master-addr"}
	}
	return s
}

// slurm is the first machine of a step of Slurm with several, "" where this is none or other flags say who the
// nodes are.
func (c *call) slurm() string {
	if n, err := strconv.Atoi(c.Getenv("SLURM_NNODES")); err != nil || n < 2 || c.given().given || c.Getenv("SLURM_NODEID") == "" {
		return ""
	}
	for _, name := range []string{"rdzv-endpoint", "np", "ips", "master-addr"} {
		if c.setting(name).given {
			return ""
		}
	}
	list := c.Getenv("SLURM_STEP_NODELIST")
	if list == "" {
		list = c.Getenv("SLURM_JOB_NODELIST")
	}
	return firstHost(list)
}

// firstHost is the first machine of Slurm's list, as n[01-04,7],m3.
func firstHost(list string) string {
	m := regexp.MustCompile(`^([^,\[]+)(?:\[([0-9]+)[^\]]*\])?`).FindStringSubmatch(list)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// shared is HOST:PORT of a server that an agent on HOST starts if nothing listens there; "": there is none. The
// setting is where it comes from.
func (c *call) shared() (string, setting, error) {
	if c.truth("standalone") {
		return "", setting{}, nil
	}
	ips, master := c.ips(), c.masterAddr()
	at := c.setting("rdzv-endpoint")
	server := c.given()
	switch {
	case server.given && (strings.HasPrefix(server.origin, "--") || !at.given || !strings.HasPrefix(at.origin, "--")):
		return "", setting{}, nil
	case at.given && strings.ContainsAny(at.text, "/,"):
		return "", setting{}, nil
	case at.given:
	case ips.given:
		at = setting{name: "ips", text: strings.TrimSpace(strings.Split(ips.text, ",")[0]), origin: ips.origin, given: true}
		if !strings.Contains(ips.text, ",") && (at.text == "127.0.0.1" || at.text == "localhost") {
			return "", setting{}, nil
		}
	case master.given:
		at = master
		at.text = net.JoinHostPort(strings.Trim(master.text, "[]"), first(c.setting("master-port").text, "29500"))
	case c.slurm() != "":
		at = setting{name: "server", text: c.slurm(), origin: "SLURM_STEP_NODELIST", given: true}
	default:
		return "", setting{}, nil
	}
	host, port, err := net.SplitHostPort(at.text)
	if err != nil {
		host, port = at.text, sharedPort
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 || host == "" || strings.Contains(host, "/") {
		return "", at, at.refuse("not HOST:PORT").cure("HOST:%s, with the address of the first node", sharedPort)
	} else if n == 0 {
		return "", setting{}, nil // torchrun's word for any port, of this machine
	}
	return net.JoinHostPort(host, port), at, nil
}

func first(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// remote reports whether the server may be another machine's.
func (c *call) remote() bool {
	at, _, err := c.shared()
	return err == nil && at != "" || c.given().given && !c.truth("standalone")
}

// unnamed names a job of given nodes that nobody named. Like every run of Paddle's launcher it begins anew where
// the last one is done.
func (c *call) unnamed(o *node.Options) bool {
	if len(o.Job.Hosts) == 0 && !c.masterAddr().given {
		return false
	}
	o.Job.Name, o.Again = schema.Job(defaultJob), true
	return true
}

// openTo is what is said of a server that everybody reaches, and how that ends.
func openTo(at string) string {
	return fmt.Sprintf("anyone who reaches %s can change the job: close the port to others, "+
		"or run elasticd with --trusted-ca-file and add --server=https://%[1]s --cacert=FILE", at)
}
