// Package options parses the settings of `elastic run`, of the job and of this node, from flags,
// variables and elastic.yaml.
package options

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"

	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
)

// jobSettings are the flags that the first agent of a job sets for all its nodes.
var jobSettings = []string{"np", "nproc-per-node", "batch-size", "lr", "base-np", "scaling",
	"warmup-samples", "replicas", "keep", "load", "save-from", "save-files", "on-nan", "max-restarts",
	"last-call", "grace"}

// Parse reads and checks all settings before it changes anything.
func Parse(c *command.Call) (node.Options, error) {
	o := node.Options{Given: map[string]bool{}}
	for _, name := range jobSettings {
		o.Given[name] = c.Setting(name).Given
	}
	for _, step := range []func(*command.Call, *node.Options) error{
		workDir, modes, servers, sizes, PlanBatch, rules, names, times, streams, launcher, program,
		address, serverCore, dirs,
	} {
		if err := step(c, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

func sizes(c *command.Call, o *node.Options) (err error) {
	j := &o.Job
	j.Limits = rendezvous.Limits{Min: 1, Max: 1, Exact: true}
	np := c.Setting("np")
	if np.Given {
		if j.Limits, err = np.Limits(); err != nil {
			return err
		}
	}
	if n := c.Getenv(target.StepNodes); target.Slurm(c) != "" {
		if j.Limits, err = (command.Setting{Name: "np", Text: n, Origin: target.StepNodes}).
			Limits(); err != nil {
			return err
		}
	}
	if err := placeNode(c, o); err != nil {
		return err
	}
	if err := slots(c, o); err != nil {
		return err
	}
	if j.Slots > scaling.MaxWorld/j.Limits.Max {
		return problem.New(problem.NPRange, "%d nodes x %d workers: more than %d workers",
			j.Limits.Max, j.Slots, scaling.MaxWorld).Cure(command.NpFix)
	}
	return nil
}

func rules(c *command.Call, o *node.Options) (err error) {
	r := &o.Job.Rules
	for _, n := range []struct {
		name             string
		to               *int
		otherwise, least int
	}{{"max-restarts", &r.MaxRestarts, 3, 0}, {"replicas", &r.Replicas, 2, 1}, {"keep", &r.Keep, 3, 1}} {
		if *n.to, err = c.Setting(n.name).Number(n.otherwise, n.least); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name      string
		to        *rendezvous.Seconds
		otherwise time.Duration
	}{{"last-call", &r.LastCall, 3 * time.Second}, {"grace", &r.Grace, 30 * time.Second}} {
		v, err := c.Setting(d.name).DurationOrNone(d.otherwise)
		if err != nil {
			return err
		}
		*d.to = rendezvous.Seconds(v)
	}
	if s := c.Setting("shutdown-timeout"); s.Given && !c.Setting("grace").Given {
		n, err := s.Number(0, 0)
		if err != nil {
			return err
		}
		r.Grace, o.Given["grace"] = rendezvous.Seconds(time.Duration(n)*time.Second), true
	}
	if level := c.Getenv("PADDLE_ELASTIC_FAULT_TOLERANC_LEVEL"); level == "0" &&
		!c.Setting("max-restarts").Given {
		r.MaxRestarts = 0 // Paddle's value for a job that fails at its first failure
	}
	if err := onNaN(c, r); err != nil {
		return err
	}
	return saving(c, &o.Job)
}

func times(c *command.Call, o *node.Options) error {
	for _, d := range []struct {
		name      string
		to        *time.Duration
		otherwise time.Duration
		none      bool
	}{
		{"wait-timeout", &o.WaitTimeout, 0, true}, {"hang-timeout", &o.HangTimeout, 0, true},
		{"hang-look", &o.HangLook, 30 * time.Second, true},
		{"verify-every", &o.VerifyEvery, 24 * time.Hour, true},
		{"pre-hook-timeout", &o.PreHook.Limit, time.Minute, false},
		{"lease-ttl", &o.LeaseTTL, 3 * time.Second, false},
		{"connect-timeout", &o.ConnectTimeout, 60 * time.Second, false},
	} {
		var err error
		parse := c.Setting(d.name).Duration
		if d.none {
			parse = c.Setting(d.name).DurationOrNone
		}
		if *d.to, err = parse(d.otherwise); err != nil {
			return err
		}
	}
	hook := c.Setting("pre-hook")
	o.PreHook.Command = hook.Text
	if hook.Given && strings.TrimSpace(hook.Text) == "" {
		return hook.Refuse("an empty command")
	}
	return nil
}

func streams(c *command.Call, o *node.Options) (err error) {
	for _, s := range []struct {
		name, otherwise string
		to              *output.Choice
		parse           func(string) (output.Choice, error)
	}{{"console", "0", &o.Console, output.ParseConsole}, {"tee", "0", &o.Tee, output.ParseStd},
		{"redirects", "0", &o.Redirects, output.ParseStd}} {
		v := c.Setting(s.name)
		if !v.Given {
			v.Text = s.otherwise
		}
		if *s.to, err = s.parse(v.Text); err != nil {
			return problem.New(problem.Usage, "%s: %v", v.Origin, err)
		}
	}
	// As torchrun's filter, a list of ranks in --console also limits --tee; all and none do not.
	if s := c.Setting("console"); s.Given && s.Text != "all" && s.Text != "none" {
		o.Tee = o.Tee.Within(o.Console)
	}
	port := c.Setting("port")
	if o.Port, err = port.Number(0, 0); err == nil && o.Port > 65535 {
		err = port.Refuse("a port is at most 65535")
	}
	if err != nil {
		return err
	}
	o.PortsLo, o.PortsHi, err = c.Setting("worker-ports").Ports()
	return err
}

// program finds the file to run, like a shell.
func program(c *command.Call, o *node.Options) error {
	beside := ""
	if self, err := os.Executable(); err == nil {
		beside = filepath.Dir(self)
	}
	before, err := interpreterArgs(c)
	if err == nil && before != nil {
		err = script(c, o, before, beside)
	} else if err == nil {
		o.Program, err = launch.FindProgram(c.Args[0], c.Getenv("PATH"), beside)
		o.Args = c.Args[1:]
	}
	if err != nil {
		return err
	}
	hidesHelper(c, before)
	o.Environ = os.Environ()
	if o.ProgressRegex, err = progressRegex(c); err != nil {
		return err
	}
	return nil
}
