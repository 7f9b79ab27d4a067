package options

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/cli/command"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/device"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/pkg/roles"
)

// slots sets the number of workers of this node and their devices: the number of --nproc-per-node,
// or one for each named device.
func slots(c *command.Call, o *node.Options) error {
	host := device.Host{Getenv: c.Getenv}
	nproc, ids := c.Setting("nproc-per-node"), c.Setting("gpus")
	kind, n, err := processes(c, nproc)
	if err != nil {
		return err
	}
	set := device.Find(context.Background(), host, kind)
	l := &o.Launcher
	switch {
	case ids.Given:
		if l.Devices, err = set.Choose(ids.Text); err != nil {
			return badDevice(ids, err)
		}
		if n == 0 && o.Job.Roles == nil {
			n = len(l.Devices.Devices)
		}
		if o.Job.Roles == nil && !l.Devices.Fits(n) {
			return problem.New(problem.BadDevices, "%s: %d devices cannot be shared by %d workers", ids,
				len(l.Devices.Devices), n).
				Because("each worker gets as many as the others").
				Cure("leave --nproc-per-node out: one worker for each device")
		}
		o.Given["nproc-per-node"] = true
	case len(set.Visible) > 0:
		l.Devices = set.All()
	}
	if o.Job.Roles != nil { // the trainers get the devices in turn
		o.Job.Slots = o.Job.Roles.Most(
			roles.Size{Nodes: o.Job.Limits.Min, Slots: max(n, 1), Hosts: o.Job.Hosts})
		delete(o.Given, "nproc-per-node")
		return nil
	}
	switch {
	case n > 0:
	case kind != device.Any && len(set.Visible) == 0:
		return problem.New(problem.BadDevices, "%s: no %s was found on this machine", nproc, kind).
			Cure("--nproc-per-node=N, or cpu for one worker a processor")
	case nproc.Text == "auto" && len(set.Visible) == 0:
		n = runtime.NumCPU()
	case nproc.Given || paddle(c) && len(set.Visible) > 0:
		n = len(set.Visible)
	default:
		n = 1
	}
	o.Job.Slots = n
	return nil
}

// processes reads --nproc-per-node. It returns the kind of the devices, and a number, which is 0 if
// the number of devices decides.
func processes(c *command.Call, nproc command.Setting) (device.Kind, int, error) {
	switch kind := device.Kind(nproc.Text); {
	case !nproc.Given || nproc.Text == "auto":
		return device.Any, 0, nil
	case nproc.Text == "cpu":
		return device.Any, runtime.NumCPU(), nil
	case slices.Contains([]device.Kind{device.GPU, device.XPU, device.NPU}, kind):
		return kind, 0, nil
	}
	if _, err := strconv.Atoi(nproc.Text); err != nil {
		return device.Any, 0, nproc.Refuse("not a number, auto, gpu, xpu, npu or cpu")
	}
	n, err := nproc.Number(1, 1)
	return device.Any, n, err
}

func badDevice(s command.Setting, err error) *problem.Error {
	return problem.New(problem.BadDevices, "%s: %s", s, strings.TrimPrefix(err.Error(), "device: ")).Of(err).
		Cure("ids as nvidia-smi numbers them, each once: --gpus=0,1")
}

// bindToNUMA reads --numa-binding. Other values of torchrun's flag act as node.
func bindToNUMA(c *command.Call, o *node.Options) error {
	a := c.Setting("numa-binding")
	if !a.Given {
		return nil
	}
	if a.Text != "node" {
		c.Out.Say("elastic: %s acts as node: each worker runs on the processors of its device's NUMA node", a)
	}
	if _, err := o.Launcher.Devices.CPUs(device.Host{}, o.Job.Slots, device.Allowed()); err != nil {
		return badDevice(a, err).Cure("leave it out where no device is used")
	}
	o.Launcher.NUMA = true
	return nil
}

// paddle reports whether a flag was given that only Paddle's launcher has. The output then is that
// of Paddle's launcher, and each device has a worker.
func paddle(c *command.Call) bool {
	return len(givenRoles(c)) > 0 || slices.ContainsFunc([]string{"gpus", "run-mode", "ips", "rank"},
		func(name string) bool { return c.Setting(name).Given }) ||
		slices.ContainsFunc([]string{"rdzv-endpoint", "server"},
			func(name string) bool {
				s := c.Setting(name)
				return s.Typed == "--master" || s.Origin == "PADDLE_MASTER"
			})
}

// longestRole bounds --role, because every World lists the role of each node.
const longestRole = 100

// launcher reads the flags that say how workers are started.
func launcher(c *command.Call, o *node.Options) error {
	l := &o.Launcher
	l.Binding = device.Auto
	if b := c.Setting("device-binding"); b.Given {
		l.Binding = device.Binding(b.Text)
	}
	if c.Truth("virtual-local-rank") {
		if err := virtualRanks(c, o); err != nil {
			return err
		}
	}
	if err := bindToNUMA(c, o); err != nil {
		return err
	}
	l.Role = "default"
	if r := c.Setting("role"); r.Given {
		if len(r.Text) > longestRole || strings.ContainsFunc(r.Text, unicode.IsControl) {
			return r.Refuse("a name of one line, at most 100 bytes long")
		}
		l.Role = r.Text
	}
	l.Prefix = c.Setting("log-line-prefix-template").Text
	l.CopyOut, l.CopyErr = commaList(c.Setting("duplicate-stdout-filters")),
		commaList(c.Setting("duplicate-stderr-filters"))
	l.Announce = paddle(c) || c.Truth("verbose")
	o.Warm = c.Setting("warm").Text != "off"
	return terminal(c, o)
}

// virtualRanks gives each worker one device, as LOCAL_RANK 0. As torchrun does, it takes the devices
// of CUDA_VISIBLE_DEVICES where none is found, else those with the numbers of the local ranks.
func virtualRanks(c *command.Call, o *node.Options) (err error) {
	l := &o.Launcher
	l.VirtualLocalRank, l.Binding = true, device.Env
	if len(l.Devices.Devices) == 0 {
		ids := c.Getenv("CUDA_VISIBLE_DEVICES")
		if ids == "" {
			ids = "0"
			for i := 1; i < o.Job.Slots; i++ {
				ids += "," + strconv.Itoa(i)
			}
		}
		if l.Devices, err = device.Named(ids); err != nil {
			return badDevice(command.Setting{Origin: "CUDA_VISIBLE_DEVICES", Text: ids}, err)
		}
	}
	if n := len(l.Devices.Devices); n < o.Job.Slots {
		return problem.New(problem.BadDevices, "--virtual-local-rank: %d devices for %d workers", n, o.Job.Slots).
			Because("each worker gets one device as its only one").Cure("--nproc-per-node=%d", n)
	}
	l.Devices = l.Devices.First(o.Job.Slots)
	return nil
}

// commaList splits a comma list. Two commas stand for one comma in a value.
func commaList(s command.Setting) []string {
	if !s.Given {
		return nil
	}
	var out []string
	for w := range strings.SplitSeq(strings.ReplaceAll(s.Text, ",,", "\x00"), ",") {
		out = append(out, strings.ReplaceAll(w, "\x00", ","))
	}
	return out
}

// terminal gives the terminal of this command to the only worker.
func terminal(c *command.Call, o *node.Options) error {
	if !c.Truth("tty") {
		return nil
	}
	in := os.Stdin
	switch {
	case !screen.IsTerminal(in):
		return problem.New(problem.Usage, "--tty: this is no terminal")
	case o.Job.Slots != 1:
		return problem.New(problem.Usage, "--tty: this node has %d workers, and one terminal", o.Job.Slots).
			Cure("--nproc-per-node=1")
	}
	o.Launcher.TTY = in
	return nil
}

// lead is how much earlier rank 0 starts if the script uses Paddle. The other ranks connect to rank
// 0's store at their start, and try again only after 3 s if it is closed.
const lead = 100 * time.Millisecond

// interpreterArgs returns the arguments of the Python interpreter before the program, or nil if the
// program itself is executed.
func interpreterArgs(c *command.Call) ([]string, error) {
	module, runPath := c.Truth("module"), c.Truth("run-path")
	switch {
	case module && c.Truth("no-python"):
		return nil, problem.New(problem.Usage, "--module and --no-python").
			Because("a module is run by Python").Cure("one of them")
	case runPath:
		return []string{"-u", "-c",
				"import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"},
			nil
	case module:
		return []string{"-u", "-m"}, nil
	case strings.HasSuffix(c.Args[0], ".py") && !c.Truth("no-python"):
		return []string{"-u"}, nil
	}
	return nil, nil
}

// python returns the interpreter of scripts.
func python(c *command.Call, beside string) (string, error) {
	if given := c.Getenv("PYTHON_EXEC"); given != "" {
		return launch.FindProgram(given, c.Getenv("PATH"), beside)
	}
	found, err := launch.FindProgram("python3", c.Getenv("PATH"), beside)
	if err != nil {
		return launch.FindProgram("python", c.Getenv("PATH"), beside)
	}
	return found, nil
}

// script sets the program to a Python script or module. It fails if the script does not exist, so
// that not every worker has to fail.
func script(c *command.Call, o *node.Options, before []string, beside string) error {
	var err error
	if o.Program, err = python(c, beside); err != nil {
		return err
	}
	o.Args = slices.Concat(before, c.Args)
	if slices.Contains(before, "-m") {
		return nil
	}
	text, err := regular.Read(c.Args[0], scriptMax)
	if errors.Is(err, os.ErrNotExist) {
		return &launch.NotFoundError{Name: c.Args[0]}
	}
	if err != nil {
		return &launch.NotExecutableError{Path: c.Args[0], Err: err}
	}
	if launch.UsesPaddle(text) {
		o.Launcher.Lead = lead
	}
	return nil
}

// scriptMax is far above any script. It bounds a file that is none.
const scriptMax = 64 << 20

// defaultSignals are the signals that a node handles by default.
var defaultSignals = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}

// Signals returns further signals on which this node saves and leaves, as on SIGTERM.
func Signals(c *command.Call) ([]os.Signal, error) {
	s := c.Setting("signals-to-handle")
	if !s.Given {
		return nil, nil
	}
	var more []os.Signal
	for name := range strings.SplitSeq(s.Text, ",") {
		name = strings.TrimSpace(name)
		sig := unix.SignalNum(name)
		switch {
		case sig == 0 || sig == syscall.SIGKILL || sig == syscall.SIGSTOP:
			return nil, s.Refuse("%q is no signal that can be handled", name)
		case !slices.Contains(defaultSignals, name):
			more = append(more, sig)
		}
	}
	return more, nil
}
