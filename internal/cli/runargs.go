package cli

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
)

// jobSettings are the flags whose values are the job's once its first agent made it.
var jobSettings = []string{"np", "nproc-per-node", "batch-size", "lr", "base-np", "scaling", "table",
	"max-batch-size", "max-lr", "max-scale", "warmup-samples", "replicas", "keep", "load", "on-nan",
	"max-restarts", "last-call", "grace", "finish-timeout"}

// options parses and checks the whole line before anything is touched.
func (c *call) options() (node.Options, error) {
	o := node.Options{Given: map[string]bool{}}
	for _, name := range jobSettings {
		o.Given[name] = c.setting(name).given
	}
	for _, step := range []func(*node.Options) error{c.sizes, c.batch, c.rules, c.names, c.times, c.streams, c.launcher, c.program, c.address, c.dirs} {
		if err := step(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (c *call) sizes(o *node.Options) (err error) {
	j := &o.Job
	j.Limits = rendezvous.Limits{Min: 1, Max: 1, Exact: true}
	np := c.setting("np")
	if np.given {
		if j.Limits, err = np.limits(); err != nil {
			return err
		}
	}
	if n := c.Getenv("SLURM_NNODES"); c.slurm() != "" {
		if j.Limits, err = (setting{name: "np", text: n, origin: "SLURM_NNODES"}).limits(); err != nil {
			return err
		}
	}
	if err := c.fixed(o); err != nil {
		return err
	}
	if err := c.slots(o); err != nil {
		return err
	}
	if j.Slots > scaling.MaxWorld/j.Limits.Max {
		return fail(NPRange, "%d nodes x %d workers: more than %d workers", j.Limits.Max, j.Slots, scaling.MaxWorld).cure(npFix)
	}
	return nil
}

func (c *call) rules(o *node.Options) (err error) {
	r := &o.Job.Rules
	for _, n := range []struct {
		name             string
		to               *int
		otherwise, least int
	}{{"max-restarts", &r.MaxRestarts, 3, 0}, {"replicas", &r.Replicas, 2, 1}, {"keep", &r.Keep, 3, 1}} {
		if *n.to, err = c.setting(n.name).number(n.otherwise, n.least); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name      string
		to        *rendezvous.Seconds
		otherwise time.Duration
	}{{"last-call", &r.LastCall, 3 * time.Second}, {"grace", &r.Grace, 30 * time.Second}, {"finish-timeout", &r.FinishTimeout, 0}} {
		v, err := c.setting(d.name).duration(d.otherwise, true)
		if err != nil {
			return err
		}
		*d.to = rendezvous.Seconds(v)
	}
	if s := c.setting("shutdown-timeout"); s.given && !c.setting("grace").given {
		n, err := s.number(0, 0)
		if err != nil {
			return err
		}
		r.Grace, o.Given["grace"] = rendezvous.Seconds(time.Duration(n)*time.Second), true
	}
	if level := c.Getenv("PADDLE_ELASTIC_FAULT_TOLERANC_LEVEL"); level == "0" && !c.setting("max-restarts").given {
		r.MaxRestarts = 0 // Paddle's word for: a failure ends the job
	}
	r.Load = "all"
	if err := c.onNaN(r); err != nil {
		return err
	}
	if l := c.setting("load"); l.given {
		if r.Load = l.text; l.text != "all" && l.text != "rank0" {
			return l.refuse("all or rank0")
		}
	}
	return nil
}

// names settles what the job and this node are called.
func (c *call) names(o *node.Options) error {
	if len(c.args) == 0 {
		return fail(Usage, "no program to run").cure("elastic run [flags] PROGRAM [ARGS…]")
	}
	o.Again = c.context.Bool("again")
	o.Job.Origin = rendezvous.NewOrigin(c.userName(), hostName(), c.args)
	id := c.setting("job-id")
	switch {
	case id.given:
		if err := validName("job", id.text); err != nil {
			return err
		}
		o.Job.Name = schema.Job(id.text)
	case c.unnamed(o):
	case o.Job.Limits.Max > 1:
		return fail(JobID, "no job id").because("with %s other nodes have to find the job", c.setting("np")).cure("--job-id=NAME, the same on every node")
	default:
		o.Job.Name, o.Job.Made = schema.Job(madeUp(c.args)), true
	}
	if o.NodeGiven { // by its address
		return nil
	}
	if n := c.setting("node"); n.given {
		o.Node, o.NodeGiven = n.text, true
		return validName("node", n.text)
	}
	o.Node = tame(cmp.Or(c.Getenv("POD_NAME"), hostName()), "node")
	return nil
}

// hostName is the name of this machine without its domain.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	host, _, _ = strings.Cut(host, ".")
	return host
}

// madeUp is a name for a job that nobody named, after its program: train-7f3a.
func madeUp(argv []string) string {
	name := filepath.Base(argv[0])
	if strings.HasPrefix(name, "python") {
		for _, a := range argv[1:] {
			if strings.HasSuffix(a, ".py") {
				name = filepath.Base(a)
				break
			}
		}
	}
	var b [2]byte
	rand.Read(b[:])
	return tame(strings.TrimSuffix(name, filepath.Ext(name)), "job") + "-" + hex.EncodeToString(b[:])
}

// tame makes a name out of what may be none.
func tame(s, otherwise string) string {
	s = strings.Map(func(r rune) rune {
		if schema.ValidName("x" + string(r)) {
			return r
		}
		return '-'
	}, s)
	s = strings.TrimLeft(s[:min(len(s), 56)], "-._")
	if !schema.ValidName(s) {
		return otherwise
	}
	return s
}

func (c *call) times(o *node.Options) error {
	for _, d := range []struct {
		name      string
		to        *time.Duration
		otherwise time.Duration
		none      bool
	}{
		{"wait-timeout", &o.WaitTimeout, 0, true}, {"hang-timeout", &o.HangTimeout, 0, true}, {"lease-ttl", &o.LeaseTTL, 3 * time.Second, false},
		{"connect-timeout", &o.ConnectTimeout, 60 * time.Second, false}, {"store-cut-limit", &o.StoreCutLimit, 60 * time.Second, false},
	} {
		var err error
		if *d.to, err = c.setting(d.name).duration(d.otherwise, d.none); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) streams(o *node.Options) (err error) {
	for _, s := range []struct {
		name, otherwise string
		to              *worker.Choice
		parse           func(string) (worker.Choice, error)
	}{{"console", "0", &o.Console, worker.ParseConsole}, {"tee", "0", &o.Tee, worker.ParseStd}, {"redirects", "0", &o.Redirects, worker.ParseStd}} {
		v := c.setting(s.name)
		if !v.given {
			v.text = s.otherwise
		}
		if *s.to, err = s.parse(v.text); err != nil {
			return fail(Usage, "%s: %v", v.origin, err)
		}
	}
	port := c.setting("port")
	if o.Port, err = port.number(0, 0); err == nil && o.Port > 65535 {
		err = port.refuse("a port is at most 65535")
	}
	if err != nil {
		return err
	}
	o.PortsLo, o.PortsHi, err = c.setting("worker-ports").ports()
	return err
}

// program finds the file to run, as a shell would.
func (c *call) program(o *node.Options) error {
	beside := ""
	if self, err := os.Executable(); err == nil {
		beside = filepath.Dir(self)
	}
	before, err := c.interpreted()
	if err == nil && before != nil {
		err = c.script(o, before, beside)
	} else if err == nil {
		o.Program, err = launch.FindProgram(c.args[0], c.Getenv("PATH"), beside)
		o.Args = c.args[1:]
	}
	if err != nil {
		return err
	}
	o.Environ = os.Environ()
	if o.ProgressRegex, err = c.progressRegex(); err != nil {
		return err
	}
	if o.Expand = c.context.Bool("expand"); o.Expand {
		if err := launch.CheckPlaceholders(o.Args); err != nil {
			return fail(Usage, "--expand: %v", err).of(err).
				cure("{batch_size}, {global_batch_size}, {lr}, {rank}… as in ELASTIC_BATCH_SIZE")
		}
	}
	o.Dir, err = os.Getwd()
	return err
}

// dirs has the directories there, and writable.
func (c *call) dirs(o *node.Options) error {
	state, err := local.State(c.setting("state-dir").text, c.Getenv)
	if err != nil {
		return err
	}
	if err := writable(state); err != nil {
		return fail(StateDir, "state directory: %v", err).of(err).cure("--state-dir=DIR, on a disk of this machine")
	}
	o.StateDir, o.LogDir = state, "log"
	if l := c.setting("log-dir"); l.given {
		o.LogDir = l.text
	}
	o.SplitLogs = c.context.Bool("split-logs")
	if o.LogKeep, err = c.setting("log-keep").number(0, 1); err != nil {
		return err
	}
	if err := writable(o.LogDir); err != nil {
		return fail(LogDir, "log directory: %v", err).of(err).cure("--log-dir=DIR")
	}
	if d := c.setting("checkpoint-dir"); d.given {
		if d.text == "" {
			return d.refuse("an empty path")
		}
		if o.CheckpointDir, err = filepath.Abs(d.text); err == nil {
			err = writable(o.CheckpointDir)
		}
		if err != nil {
			return fail(CkptDir, "checkpoint directory: %v", err).of(err).cure("--checkpoint-dir=DIR, on a disk with room")
		}
	}
	return nil
}

// writable makes dir and tries a byte in it: a full disk shows no sooner.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".elastic-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write([]byte{'\n'})
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
