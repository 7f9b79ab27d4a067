package target

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/pkg/roles"
)

// sharedPort is that of a server which an agent starts for all nodes, where none was named. It is
// torch's.
const sharedPort = "29400"

// Ips are the addresses of all nodes: --ips, or what PaddleCloud's platform says. A server that was
// given takes their place: then the nodes find one another there.
func Ips(c *command.Call) command.Setting {
	s := c.Setting("ips")
	if s.Given || given(c).Given {
		return s
	}
	if hosts := listed(c); len(hosts) > 0 {
		return command.Setting{Name: "servers", Text: strings.Join(hosts, ","),
			Origin: "--servers, --workers", Given: true}
	}
	for _, name := range []string{"PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID", "TRAINER_PORTS_NUM"} {
		if c.Getenv(name) == "" {
			return s
		}
	}
	return command.Setting{Name: "ips", Text: c.Getenv("PADDLE_TRAINERS"),
		Origin: "PADDLE_TRAINERS", Given: true}
}

// listed are the addresses of the nodes in the lists of parameter servers and trainers.
func listed(c *command.Call) []string {
	s := roles.Spec{Trainers: roles.ParseList(c.Setting("workers").Text),
		Servers:      roles.ParseList(c.Setting("servers").Text),
		Heter:        roles.ParseStages(c.Setting("heter-workers").Text),
		Coordinators: roles.ParseList(c.Setting("coordinators").Text)}
	return s.Hosts()
}

// MasterAddr is torchrun's address of the first node, where there are others.
func MasterAddr(c *command.Call) command.Setting {
	s := c.Setting("master-addr")
	np := c.Setting("np")
	if !s.Given || !np.Given || np.Text == "1" || np.Text == "1:1" || given(c).Given ||
		c.Setting("rdzv-endpoint").Given {
		return command.Setting{Name: "master-addr", Origin: "--master-addr"}
	}
	return s
}

// Slurm is the first machine of a step of Slurm with several, "" where this is none or other flags
// name the nodes.
func Slurm(c *command.Call) string {
	if n, err := strconv.Atoi(c.Getenv("SLURM_NNODES")); err != nil || n < 2 || given(c).Given ||
		c.Getenv("SLURM_NODEID") == "" {
		return ""
	}
	for _, name := range []string{"rdzv-endpoint", "np", "ips", "master-addr"} {
		if c.Setting(name).Given {
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

// shared is HOST:PORT of a server that an agent on HOST starts if nothing listens there; "": there
// is none. The setting is where it comes from.
func shared(c *command.Call) (string, command.Setting, error) {
	if c.Truth("standalone") {
		return "", command.Setting{}, nil
	}
	ips, master := Ips(c), MasterAddr(c)
	at := c.Setting("rdzv-endpoint")
	server := given(c)
	switch {
	case server.Given && server.From >= at.From:
		return "", command.Setting{}, nil
	case at.Given && strings.ContainsAny(at.Text, "/,"):
		return "", command.Setting{}, nil
	case at.Given:
	case ips.Given:
		at = command.Setting{Name: "ips", Text: strings.TrimSpace(strings.Split(ips.Text, ",")[0]),
			Origin: ips.Origin, Given: true}
		if !strings.Contains(ips.Text, ",") && (at.Text == "127.0.0.1" || at.Text == "localhost") {
			return "", command.Setting{}, nil
		}
	case master.Given:
		at = master
		at.Text = net.JoinHostPort(strings.Trim(master.Text, "[]"),
			cmp.Or(c.Setting("master-port").Text, "29500"))
	case Slurm(c) != "":
		at = command.Setting{Name: "server", Text: Slurm(c), Origin: "SLURM_STEP_NODELIST", Given: true}
	default:
		return "", command.Setting{}, nil
	}
	host, port, err := net.SplitHostPort(at.Text)
	if err != nil {
		host, port = at.Text, sharedPort
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 || host == "" ||
		strings.Contains(host, "/") {
		return "", at, at.Refuse("not HOST:PORT").
			Cure("HOST:%s, with the address of the first node", sharedPort)
	} else if n == 0 {
		return "", command.Setting{}, nil // torchrun's word for any port, of this machine
	}
	return net.JoinHostPort(host, port), at, nil
}

// Remote reports whether the server may be another machine's.
func Remote(c *command.Call) bool {
	at, _, err := shared(c)
	return err == nil && at != "" || given(c).Given && !c.Truth("standalone")
}

// OwnServer reports whether the nodes of the job start their server themselves, at an address that
// all are given.
func OwnServer(c *command.Call) bool {
	at, _, err := shared(c)
	return err == nil && at != ""
}

// Where names the server that would be used, without asking it.
func Where(c *command.Call) (string, error) {
	at, _, err := shared(c)
	switch s := given(c); {
	case err != nil || at != "":
		return at, err
	case s.Given && !c.Truth("standalone"):
		return s.Text, nil
	}
	return "the local server", nil
}

// OpenTo is the warning about a server that every client reaches, and its cure.
func OpenTo(at string) string {
	return fmt.Sprintf("anyone who reaches %s can change the job: close the port to others, "+
		"or run elasticd with --trusted-ca-file and add --server=https://%[1]s --cacert=FILE", at)
}
