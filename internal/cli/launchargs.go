package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/device"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node"
)

// slots settles how many workers this node has, and on which devices: as many as --nproc-per-node says, or one
// for each device that was named.
func (c *call) slots(o *node.Options) error {
	host := device.Host{Getenv: c.Getenv}
	nproc, ids := c.setting("nproc-per-node"), c.setting("gpus")
	kind, n, err := c.processes(nproc)
	if err != nil {
		return err
	}
	set := device.Find(context.Background(), host, kind)
	l := &o.Launcher
	switch {
	case ids.given:
		if l.Devices, err = set.Choose(ids.text); err != nil {
			return badDevice(ids, err)
		}
		if n == 0 {
			n = len(l.Devices.Devices)
		}
		if !l.Devices.Fits(n) {
			return fail(BadDevices, "%s: %d devices cannot be shared by %d workers", ids, len(l.Devices.Devices), n).
				because("each worker gets as many as the others").cure("leave --nproc-per-node out: one worker for each device")
		}
		o.Given["nproc-per-node"] = true
	case len(set.Visible) > 0:
		l.Devices = set.All()
	}
	switch {
	case n > 0:
	case kind != device.Any && len(set.Visible) == 0:
		return fail(BadDevices, "%s: no %s was found on this machine", nproc, kind).cure("--nproc-per-node=N, or cpu for one worker a processor")
	case nproc.text == "auto" && len(set.Visible) == 0:
		n = runtime.NumCPU()
	case nproc.given || c.paddle() && len(set.Visible) > 0:
		n = len(set.Visible)
	default:
		n = 1
	}
	o.Job.Slots = n
	return nil
}

// processes reads --nproc-per-node: a number, 0 where the devices decide, and which devices are meant.
func (c *call) processes(nproc setting) (device.Kind, int, error) {
	switch kind := device.Kind(nproc.text); {
	case !nproc.given || nproc.text == "auto":
		return device.Any, 0, nil
	case nproc.text == "cpu":
		return device.Any, runtime.NumCPU(), nil
	case slices.Contains([]device.Kind{device.GPU, device.XPU, device.NPU}, kind):
		return kind, 0, nil
	}
	if _, err := strconv.Atoi(nproc.text); err != nil {
		return device.Any, 0, nproc.refuse("not a number, auto, gpu, xpu, npu or cpu")
	}
	n, err := nproc.number(1, 1)
	return device.Any, n, err
}

func badDevice(s setting, err error) *Error {
	return fail(BadDevices, "%s: %s", s, strings.TrimPrefix(err.Error(), "device: ")).of(err).
		cure("ids as nvidia-smi numbers them, each once: --gpus=0,1")
}

// paddle reports whether flags of Paddle's launcher alone are used: then it is told what Paddle's says.
func (c *call) paddle() bool {
	return slices.ContainsFunc([]string{"gpus", "run-mode", "ips"}, func(name string) bool { return c.setting(name).given })
}

// launcher reads how the workers are started.
func (c *call) launcher(o *node.Options) error {
	l := &o.Launcher
	l.Binding = device.Auto
	if b := c.setting("device-binding"); b.given {
		var ok bool
		if l.Binding, ok = device.ParseBinding(b.text); !ok {
			return b.refuse("auto, env or none")
		}
	}
	if c.truth("virtual-local-rank") {
		l.VirtualLocalRank, l.Binding = true, device.Env
	}
	if a := c.setting("numa-binding"); a.given {
		var ok bool
		if l.Affinity, ok = device.ParseAffinity(a.text); !ok {
			return a.refuse("node, socket, exclusive or core-complex")
		}
		if _, err := l.Devices.CPUs(device.Host{}, l.Affinity, o.Job.Slots, device.Allowed()); err != nil {
			return badDevice(a, err).cure("leave it out where no device is used")
		}
	}
	if m := c.setting("run-mode"); m.given && m.text != "collective" {
		return m.refuse("collective is the only one")
	}
	l.Role, l.Prefix = c.setting("role").text, c.setting("log-line-prefix-template").text
	l.CopyOut, l.CopyErr = commaList(c.setting("duplicate-stdout-filters")), commaList(c.setting("duplicate-stderr-filters"))
	l.Announce = c.paddle() || c.truth("verbose")
	return c.terminal(o)
}

// truth is a boolean flag, or its variable: torchrun takes 1 and 0 there.
func (c *call) truth(name string) bool {
	b, err := strconv.ParseBool(c.setting(name).text)
	return err == nil && b
}

// commaList reads a comma list in which two commas stand for one.
func commaList(s setting) []string {
	if !s.given {
		return nil
	}
	var out []string
	for w := range strings.SplitSeq(strings.ReplaceAll(s.text, ",,", "\x00"), ",") {
		out = append(out, strings.ReplaceAll(w, "\x00", ","))
	}
	return out
}

// terminal gives the terminal to the only worker.
func (c *call) terminal(o *node.Options) error {
	if !c.truth("tty") {
		return nil
	}
	in := os.Stdin
	switch {
	case !isTerminal(in):
		return fail(Usage, "--tty: this is no terminal")
	case o.Job.Slots != 1:
		return fail(Usage, "--tty: this node has %d workers, and one terminal", o.Job.Slots).cure("--nproc-per-node=1")
	}
	o.Launcher.TTY = in
	return nil
}

// lead is how much earlier the process of rank 0 starts where Paddle runs: its store is asked for by the others
// as soon as they come, and who finds it closed asks again after 3 s.
const lead = 100 * time.Millisecond

// interpreted reports what runs a program that is no executable itself: the arguments before it, nil if it
// is one.
func (c *call) interpreted() ([]string, error) {
	module, runPath := c.truth("module"), c.truth("run-path")
	switch {
	case module && c.truth("no-python"):
		return nil, fail(Usage, "--module and --no-python").because("a module is run by Python").cure("one of them")
	case runPath:
		return []string{"-u", "-c", "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"}, nil
	case module:
		return []string{"-u", "-m"}, nil
	case strings.HasSuffix(c.args[0], ".py") && !c.truth("no-python"):
		return []string{"-u"}, nil
	}
	return nil, nil
}

// python is the interpreter of scripts.
func (c *call) python(beside string) (string, error) {
	if given := c.Getenv("PYTHON_EXEC"); given != "" {
		return launch.FindProgram(given, c.Getenv("PATH"), beside)
	}
	found, err := launch.FindProgram("python3", c.Getenv("PATH"), beside)
	if err != nil {
		return launch.FindProgram("python", c.Getenv("PATH"), beside)
	}
	return found, nil
}

// script runs a Python script or module. A script that is not there is found out now, and not by every worker.
func (c *call) script(o *node.Options, before []string, beside string) error {
	var err error
	if o.Program, err = c.python(beside); err != nil {
		return err
	}
	o.Args = slices.Concat(before, c.args)
	if slices.Contains(before, "-m") {
		return nil
	}
	text, err := os.ReadFile(c.args[0])
	if errors.Is(err, os.ErrNotExist) {
		return &launch.NotFoundError{Name: c.args[0]}
	}
	if err != nil {
		return &launch.NotExecutableError{Path: c.args[0], Err: err}
	}
	if launch.UsesPaddle(text) {
		o.Launcher.Lead = lead
	}
	return nil
}

// arguments is what Paddle's launcher shows of its command line.
func (c *call) arguments(o *node.Options) launch.Arguments {
	return launch.Arguments{GPUs: c.setting("gpus").text, IPs: first(c.setting("ips").text, "127.0.0.1"), LogDir: o.LogDir,
		NProc: c.setting("nproc-per-node").text, Script: c.args[0], ScriptArgs: c.args[1:]}
}

// claim marks the devices of this node as used, and says who else uses them.
func (c *call) claim(o *node.Options) *device.Claims {
	used := o.Launcher.Devices.Used(o.Job.Slots)
	who := "job " + string(o.Job.Name) + " (pid " + strconv.Itoa(os.Getpid()) + ")"
	held, others := used.Claim(filepath.Join(o.StateDir, "devices"), who)
	for _, text := range others {
		c.out.say("elastic: %s", text)
	}
	return held
}

// usual are the signals that a node always handles.
var usual = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}

// signals are more signals on which this node saves and leaves, as on SIGTERM.
func (c *call) signals() ([]os.Signal, error) {
	s := c.setting("signals-to-handle")
	if !s.given {
		return nil, nil
	}
	var more []os.Signal
	for name := range strings.SplitSeq(s.text, ",") {
		name = strings.TrimSpace(name)
		sig := unix.SignalNum(name)
		switch {
		case sig == 0 || sig == syscall.SIGKILL || sig == syscall.SIGSTOP:
			return nil, s.refuse("%q is no signal that can be handled", name)
		case !slices.Contains(usual, name):
			more = append(more, sig)
		}
	}
	return more, nil
}
