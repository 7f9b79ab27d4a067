// Package roles says which processes a job has beside its trainers, and on which node each runs.
// It is pure: the same Spec gives every node the same answer.
package roles

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/pkg/schema"
)

// Mode is how the processes of a job work together, by Paddle's names of --run_mode.
type Mode string

const (
	PS      Mode = "ps"       // parameter servers and trainers
	PSHeter Mode = "ps-heter" // and heter workers, in stages
)

// Role is what one process does in its job.
type Role string

const (
	Trainer     Role = "trainer"
	Heter       Role = "heter"
	Server      Role = "server"
	Coordinator Role = "coordinator"
)

// Spec is the processes of a job. A list has one entry for each process: HOST:PORT, HOST, or ""
// where the node and the port are chosen by elastic.
type Spec struct {
	Mode         Mode       `json:"mode"`
	Trainers     []string   `json:"trainers,omitempty"` // nil: as many on each node as the job has slots
	Servers      []string   `json:"servers,omitempty"`
	Heter        [][]string `json:"heter,omitempty"`         // by stage; the first is Paddle's stage 2
	HeterDevices []string   `json:"heter_devices,omitempty"` // cpu, gpu or xpu, by stage, the trainers' first
	Coordinators []string   `json:"coordinators,omitempty"`
	// of gloo's rendezvous, on the first server's node; 0: any
	HTTPPort int `json:"http_port,omitempty"`
}

// Task is one process.
type Task struct {
	Role  Role
	Index int // among all of its role
	Local int // among those of its role on its node: N of its log
	Stage int // of a heter worker: 2, 3, …; of a trainer 1
	At    string
}

// Log is the name of the file that its output goes to.
func (t Task) Log() string {
	stem := map[Role]string{Trainer: "workerlog", Heter: "heterlog", Server: "serverlog",
		Coordinator: "coordinatorlog"}[t.Role]
	return stem + "." + strconv.Itoa(t.Local)
}

// Same reports whether both are one process of the job, wherever it runs.
func (t Task) Same(u Task) bool { return t.Role == u.Role && t.Index == u.Index }

// String names the process.
func (t Task) String() string { return fmt.Sprintf("%s %d", t.Role, t.Index) }

// Hosts are the addresses that the lists name, the trainers' first, each once: they are the nodes
// of the job by rank. None: the lists name no address.
func (s *Spec) Hosts() []string {
	var hosts []string
	for _, at := range slices.Concat(s.Trainers, s.Servers, slices.Concat(s.Heter...), s.Coordinators) {
		if host, _ := split(at); host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// split is the host and the port of an entry; 0: any port.
func split(at string) (string, int) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return at, 0
	}
	n, _ := strconv.Atoi(port) // Validate has seen it
	return host, n
}

// maxTasks bounds the processes of one role.
const maxTasks = 1 << 16

// Validate checks s, which may come from a record.
func (s *Spec) Validate() error {
	var p schema.Problems
	p.Check(slices.Contains([]Mode{PS, PSHeter}, s.Mode), "run mode is %.80q", s.Mode)
	p.Range("http_port", int64(s.HTTPPort), 0, 65535)
	lists := append([][]string{s.Trainers, s.Servers, s.Coordinators}, s.Heter...)
	seen := map[string]bool{}
	for _, list := range lists {
		p.Range("processes", int64(len(list)), 0, maxTasks)
		for _, at := range list {
			if at == "" {
				continue
			}
			host, port, err := net.SplitHostPort(at)
			if err != nil {
				p.Address("address", at)
				continue
			}
			n, err := strconv.Atoi(port)
			p.Check(err == nil && n > 0 && n <= 65535, "%.80q has no port", at)
			p.Address("address", host)
			p.Check(!seen[at], "%.80s is there twice", at)
			seen[at] = true
		}
	}
	p.Check(len(s.Servers) > 0, "mode %s without a server", s.Mode)
	p.Check(s.Mode == PSHeter || len(s.Heter) == 0, "mode %s with heter workers", s.Mode)
	p.Check(s.Mode != PSHeter || len(s.Heter) > 0, "mode %s without a heter worker", s.Mode)
	p.Check(s.HeterDevices == nil || len(s.HeterDevices) == len(s.Heter)+1, "%d devices for %d stages",
		len(s.HeterDevices), len(s.Heter)+1)
	return p.Err()
}

// ParseList reads a comma list of addresses; nil for none.
func ParseList(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// ParseStages reads lists of addresses that are separated by semicolons.
func ParseStages(text string) [][]string {
	if text == "" {
		return nil
	}
	var stages [][]string
	for stage := range strings.SplitSeq(text, ";") {
		stages = append(stages, ParseList(stage))
	}
	return stages
}

// String is the processes in short: how many there are of each role, or their list.
func (s *Spec) String() string {
	if s == nil {
		return "collective"
	}
	words := []string{string(s.Mode)}
	add := func(name string, list []string) {
		switch all := strings.Join(list, ","); {
		case list == nil:
		case strings.Trim(all, ",") == "":
			words = append(words, fmt.Sprintf("%s=%d", name, len(list)))
		default:
			words = append(words, name+"="+all)
		}
	}
	add("servers", s.Servers)
	add("workers", s.Trainers)
	for _, stage := range s.Heter {
		add("heter-workers", stage)
	}
	add("coordinators", s.Coordinators)
	if s.HTTPPort > 0 {
		words = append(words, fmt.Sprintf("http-port=%d", s.HTTPPort))
	}
	return strings.Join(append(words, s.HeterDevices...), " ")
}
