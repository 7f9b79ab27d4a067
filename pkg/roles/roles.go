// Package roles says which processes a job has in addition to its trainers, and on which node each
// runs. It is pure: every node computes the same answer from the same Spec.
package roles

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/pkg/schema"
)

// Mode says how the processes of a job work together. The names are those of Paddle's --run_mode.
type Mode string

const (
	PS      Mode = "ps"       // parameter servers and trainers
	PSHeter Mode = "ps-heter" // the same, and heter workers in stages
)

// Role is the role of one process in its job.
type Role string

const (
	Trainer Role = "trainer"
	Heter   Role = "heter"
	Server  Role = "server"
)

// Spec lists the processes of a job. A list has one entry for each process: HOST:PORT, HOST, or ""
// if Elastic chooses the node and the port.
type Spec struct {
	Mode         Mode       `json:"mode"`
	Trainers     []string   `json:"trainers,omitempty"` // nil: each node has as many as the job has slots
	Servers      []string   `json:"servers,omitempty"`
	Heter        [][]string `json:"heter,omitempty"`         // by stage; the first is Paddle's stage 2
	HeterDevices []string   `json:"heter_devices,omitempty"` // cpu, gpu or xpu, by stage, from stage 1 on
	// HTTPPort is the port of gloo's rendezvous, on the first server's node; 0: any.
	HTTPPort int `json:"http_port,omitempty"`
}

// Task is one process.
type Task struct {
	Role  Role
	Index int // among all processes of its role
	Local int // among those on its node; also the number of its log
	Stage int // 1 for a trainer, 2 or more for a heter worker
	At    string
}

// Log returns the name of the file to which the process's output goes.
func (t Task) Log() string {
	stem := map[Role]string{Trainer: "workerlog", Heter: "heterlog", Server: "serverlog"}[t.Role]
	return stem + "." + strconv.Itoa(t.Local)
}

// Same reports whether both are the same process of the job, on any node.
func (t Task) Same(u Task) bool { return t.Role == u.Role && t.Index == u.Index }

// String returns the role and the index of the process.
func (t Task) String() string { return fmt.Sprintf("%s %d", t.Role, t.Index) }

// Hosts returns the addresses that the lists name, each once, those of the trainers first. They are
// the nodes of the job, by rank.
func (s *Spec) Hosts() []string {
	var hosts []string
	for _, at := range slices.Concat(s.Trainers, s.Servers, slices.Concat(s.Heter...)) {
		if host, _ := split(at); host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// split returns the host and the port of an entry. Port 0 means any port.
func split(at string) (string, int) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return at, 0
	}
	n, _ := strconv.Atoi(port) // Validate has checked it
	return host, n
}

// maxTasks is the largest number of processes in one list.
const maxTasks = 1 << 16

// Validate checks a Spec, which may come from a record.
func (s *Spec) Validate() error {
	var p schema.Problems
	p.Check(slices.Contains([]Mode{PS, PSHeter}, s.Mode), "run mode is %.80q", s.Mode)
	p.Range("http_port", int64(s.HTTPPort), 0, 65535)
	lists := append([][]string{s.Trainers, s.Servers}, s.Heter...)
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
	p.Check(s.HeterDevices == nil || len(s.HeterDevices) == len(s.Heter)+1, "%d devices for %d stages of heter workers",
		len(s.HeterDevices)-1, len(s.Heter))
	return p.Err()
}

// ParseList reads a comma-separated list of addresses. It returns nil for "".
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

// String describes the processes briefly: for each role, how many there are, or their addresses.
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
	if s.HTTPPort > 0 {
		words = append(words, fmt.Sprintf("http-port=%d", s.HTTPPort))
	}
	return strings.Join(append(words, s.HeterDevices...), " ")
}
