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

// sharedPort is the default port of a server that an agent starts for all nodes. torchrun uses it
// too.
const sharedPort = "29400"

// Ips returns the addresses of all nodes, from --ips, from the lists of servers and trainers, or
// from the variables of PaddleCloud. If a server was given, only --ips counts, because the nodes
// find each other on the server.
func Ips(c *command.Call) command.Setting {
	s := c.Setting("ips")
	if s.Given || given(c).Given {
		return s
	}
	if hosts := Listed(c); hosts.Given {
		return hosts
	}
	for _, name := range []string{"PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID", "TRAINER_PORTS_NUM"} {
		if c.Getenv(name) == "" {
			return s
		}
	}
	return command.Setting{Name: "ips", Text: c.Getenv("PADDLE_TRAINERS"),
		Origin: "PADDLE_TRAINERS", Given: true}
}

// Listed returns the addresses in the lists of parameter servers and trainers.
func Listed(c *command.Call) command.Setting {
	s := roles.Spec{Trainers: roles.ParseList(c.Setting("workers").Text),
		Servers: roles.ParseList(c.Setting("servers").Text),
		Heter:   roles.ParseStages(c.Setting("heter-workers").Text)}
	hosts := s.Hosts()
	return command.Setting{Name: "servers", Text: strings.Join(hosts, ","), Origin: "--servers, --workers",
		Given: len(hosts) > 0}
}

// MasterAddr returns torchrun's address of the first node, if the job has several nodes.
func MasterAddr(c *command.Call) command.Setting {
	s := c.Setting("master-addr")
	np := c.Setting("np")
	if !s.Given || !np.Given || np.Text == "1" || np.Text == "1:1" || given(c).Given ||
		c.Setting("rdzv-endpoint").Given {
		return command.Setting{Name: "master-addr", Origin: "--master-addr"}
	}
	return s
}

// StepNodes is the variable with the number of machines of a Slurm step. SLURM_NNODES is that of
// the allocation, on whose other machines nothing runs outside of a step.
const StepNodes = "SLURM_STEP_NUM_NODES"

// Slurm returns the first machine of a Slurm step with several machines. It is "" outside of one,
// or if other flags name the nodes.
func Slurm(c *command.Call) string {
	if n, err := strconv.Atoi(c.Getenv(StepNodes)); err != nil || n < 2 || given(c).Given ||
		c.Getenv("SLURM_STEP_ID") == "" || c.Getenv("SLURM_NODEID") == "" || c.Truth("standalone") {
		return ""
	}
	for _, name := range []string{"rdzv-endpoint", "np", "ips", "master-addr"} {
		if c.Setting(name).Given {
			return ""
		}
	}
	return firstHost(c.Getenv("SLURM_STEP_NODELIST"))
}

// firstHost returns the first machine of a list of Slurm, like n[01-04,7],m3.
func firstHost(list string) string {
	m := regexp.MustCompile(`^([^,\[]+)(?:\[([0-9]+)[^\]]*\])?`).FindStringSubmatch(list)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// shared returns HOST:PORT of the server that the agent on HOST starts if nothing listens there, or
// "". The Setting is the origin of the address.
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
		at.Text = net.JoinHostPort(strings.Trim(master.Text, "[]"), besidePort(c.Setting("master-port")))
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
		return "", command.Setting{}, nil // torchrun's port 0 means any port of this machine
	}
	return net.JoinHostPort(host, port), at, nil
}

// besidePort returns the port of the server of a job with --master-port. The port that the user
// names is the script's: init_method="tcp://MASTER:PORT" listens on it. So the server takes another
// one, which every node computes: 29400 for 29500.
func besidePort(master command.Setting) string {
	n, err := strconv.Atoi(cmp.Or(master.Text, "29500"))
	switch {
	case err != nil || n == 0:
		return master.Text
	case n > 1124:
		return strconv.Itoa(n - 100)
	}
	return strconv.Itoa(n + 100)
}

// Remote reports whether the server may be on another machine.
func Remote(c *command.Call) bool {
	at, _, err := shared(c)
	return err == nil && at != "" || given(c).Given && !c.Truth("standalone")
}

// OwnServer reports whether the nodes of the job start their server themselves, at an address that
// all of them know.
func OwnServer(c *command.Call) bool {
	at, _, err := shared(c)
	return err == nil && at != ""
}

// Where names the server that a command would use. It does not connect.
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

// OpenTo returns the warning about a server that accepts every client, with the fix.
func OpenTo(at string) string {
	return fmt.Sprintf("anyone who reaches %s can run programs as the users of its nodes: "+
		"leave --insecure out", at)
}
