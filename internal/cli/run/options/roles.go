package options

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/roles"
)

// roleNames are the flags that only jobs with parameter servers have.
var roleNames = []string{"worker-num", "server-num", "heter-worker-num", "servers", "workers",
	"heter-workers", "heter-devices", "http-port"}

// givenRoles returns the roleNames that the user gave, as Paddle spells them.
func givenRoles(c *command.Call) (names []string) {
	for _, name := range roleNames {
		if c.Setting(name).Given {
			names = append(names, "--"+strings.ReplaceAll(name, "-", "_"))
		}
	}
	return names
}

// servers reads the run mode, and the processes of a job with parameter servers.
func servers(c *command.Call, o *node.Options) error {
	given, mode := givenRoles(c), c.Setting("run-mode")
	if mode.Text == "rpc" {
		o.Launcher.Mode = node.RPC
	}
	if len(given) == 0 && !strings.HasPrefix(mode.Text, "ps") {
		return nil
	}
	if mode.Given && !strings.HasPrefix(mode.Text, "ps") {
		return problem.New(problem.Usage, "%s and %s", mode, given[0]).
			Because("a job has one mode, and %s is for parameter servers", given[0]).
			Cure("--run_mode=ps")
	}
	for _, name := range []string{"ips", "hang-timeout", "batch-size", "lr", "numa-binding", "tty"} {
		if s := c.Setting(name); s.Given && s.From == command.FromFlag {
			return problem.New(problem.Usage, "%s and parameter servers", s).
				Because("--%s is of collective training", name).Cure("leave it out")
		}
	}
	spec, err := spec(c, mode.Text)
	if err == nil {
		err = complete(c, spec)
	}
	if err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return problem.New(problem.Usage, "%s: %v", strings.Join(given, ", "), err).Of(err)
	}
	o.Job.Roles, o.Given["run-mode"] = spec, true
	return nil
}

// spec returns the processes that the flags list or count.
func spec(c *command.Call, mode string) (*roles.Spec, error) {
	s := &roles.Spec{Mode: roles.Mode(mode)}
	var err error
	if s.HTTPPort, err = c.Setting("http-port").Number(0, 1); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		list, number string
		to           *[]string
	}{{"servers", "server-num", &s.Servers}, {"workers", "worker-num", &s.Trainers}} {
		if *f.to, err = entries(c, f.list, f.number); err != nil {
			return nil, err
		}
	}
	if err := stages(c, s); err != nil {
		return nil, err
	}
	if s.Mode == "" {
		if s.Mode = roles.PS; len(s.Heter) > 0 {
			s.Mode = roles.PSHeter
		}
	}
	return s, nil
}

// stages sets the heter workers of each stage, and the devices of the stages. The first stage is
// that of the trainers: --heter_devices does not name it, and it trains on processors.
func stages(c *command.Call, s *roles.Spec) error {
	list, number := c.Setting("heter-workers"), c.Setting("heter-worker-num")
	if list.Given {
		s.Heter = roles.ParseStages(list.Text)
	}
	var counted [][]string
	for _, n := range strings.Split(number.Text, ";") {
		part := number
		part.Text = strings.TrimSpace(n)
		count, err := part.Number(0, 1)
		if err != nil {
			return err
		}
		counted = append(counted, make([]string, count))
	}
	switch {
	case !number.Given:
	case !list.Given:
		s.Heter = counted
	case !slices.EqualFunc(s.Heter, counted, func(a, b []string) bool { return len(a) == len(b) }):
		return both(list, number)
	}
	d := c.Setting("heter-devices")
	if !d.Given {
		return nil
	}
	s.HeterDevices = append([]string{"cpu"}, strings.Split(d.Text, ";")...)
	for _, kind := range s.HeterDevices {
		if !slices.Contains([]string{"cpu", "gpu", "xpu"}, kind) {
			return d.Refuse("cpu, gpu or xpu for each stage of heter workers").Cure("--heter_devices='cpu;gpu'")
		}
	}
	return nil
}

// entries returns the processes of one role, from a list or a number; nil if neither was given.
func entries(c *command.Call, listName, numberName string) ([]string, error) {
	list, number := c.Setting(listName), c.Setting(numberName)
	n, err := number.Number(0, 1)
	switch {
	case err != nil:
		return nil, err
	case list.Given:
		all := roles.ParseList(list.Text)
		if slices.Contains(all, "") {
			return nil, list.Refuse("an empty address")
		}
		if number.Given && n != len(all) {
			return nil, both(list, number)
		}
		return all, nil
	case number.Given:
		return make([]string, n), nil
	}
	return nil, nil
}

func both(list, number command.Setting) error {
	return problem.New(problem.Usage, "%s and %s", list, number).
		Because("each says how many there are, and they differ").
		Cure("leave --%s out", number.Name)
}

// complete fails if only --servers or only --workers was given. Without servers it adds one, as
// Paddle does.
func complete(c *command.Call, s *roles.Spec) error {
	servers, workers := c.Setting("servers"), c.Setting("workers")
	lists := "--servers=HOST:PORT,… --workers=HOST:PORT,…, the same on every node"
	switch {
	case servers.Given && !workers.Given:
		return problem.New(problem.Usage, "%s without --workers", servers).
			Because("the nodes of the job are the addresses of both lists").Cure("%s", lists)
	case workers.Given && !servers.Given:
		return problem.New(problem.Usage, "%s without --servers", workers).
			Because("trainers of this mode have their tables on servers").Cure("%s", lists)
	}
	for _, at := range s.Servers {
		if at != "" && !strings.Contains(at, ":") {
			return servers.Refuse("%s has no port", at).Because("trainers dial a server at its port").
				Cure("%s", lists)
		}
	}
	if s.Servers == nil {
		s.Servers = make([]string, 1)
	}
	if s.Mode == roles.PSHeter && len(s.Heter) == 0 {
		s.Heter = [][]string{make([]string, 1)}
	}
	return nil
}

// portsEnd is how long processes of an agent that was killed may need to end.
const portsEnd = 3 * time.Second

// ownPorts fails if a port of a server of this node is in use, and stays so.
func ownPorts(ctx context.Context, o *node.Options) error {
	r := o.Job.Roles
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, portsEnd)
	defer cancel()
	tasks := r.Place(o.Job.Place(o.Job.Limits.Max))
	if own := max(o.Place-1, 0); len(r.Hosts()) > 0 {
		for _, t := range tasks[own] {
			if t.Role != roles.Server || t.At == "" {
				continue
			}
			if err := launch.AwaitFree(ctx, t.At); err != nil {
				return problem.New(problem.Ports, "--servers: %v", err).Of(err).
					Because("%s of this node is to listen there", t).
					Cure("end that process, or another port in --servers")
			}
		}
	}
	return nil
}

// serverCore fails if the installed Paddle has no parameter servers. Otherwise every process would
// fail with a misleading error.
func serverCore(c *command.Call, o *node.Options) error {
	if o.Job.Roles == nil || o.Launcher.Lead == 0 { // the script does not import Paddle
		return nil
	}
	core, err := launch.FindServerCore(o.Program, o.Environ)
	if err != nil || core.Library == "" || core.Servers {
		return nil // if the check is not possible, the job is started
	}
	return problem.New(problem.NoPaddlePS, "paddle %s has no parameter servers", core.Version).
		Because("%s was built without them", core.Library).
		Cure("pip install paddlepaddle==2.6.2 'numpy<2' 'protobuf==4.25.*' setuptools; 3.0.0 has them too, " +
			"3.1 and later do not")
}
