package node

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/device"
	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/node/ensemble"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/roles"
	"github.com/elasticd/elastic/python"
)

// Launcher has the launcher flags of the workers of this node, without their program.
type Launcher struct {
	Mode             Mode   // how the workers work together
	Role             string // ROLE_NAME; "": default
	Devices          device.Choice
	Binding          device.Binding
	NUMA             bool // a worker runs on the processors near its device
	VirtualLocalRank bool

	Prefix           string // template of the text before each line that --tee shows
	CopyOut, CopyErr []string

	Lead     time.Duration // rank 0 starts so much earlier than the others
	TTY      *os.File      // the terminal, for the only worker; nil: none
	Announce bool          // print the start lines of Paddle's launcher
}

// Mode is how the trainers of a job work together.
type Mode string

const (
	Collective Mode = ""
	RPC        Mode = "rpc" // workers call each other; logs are named by rank
)

// role returns the role of all workers in a job without servers.
func (l *Launcher) role() launch.Role {
	if l.Mode == RPC {
		return launch.RPC(l.Role)
	}
	return launch.Trainer(l.Role)
}

// Fill sets the role and the devices of the processes of one node. endpoints are those of all processes of
// a job with servers, whose processes do not stay for a generation.
func (l *Launcher) Fill(in *launch.Inputs, j *rendezvous.Job, endpoints []string) error {
	in.Role, in.VirtualLocalRank = l.role(), l.VirtualLocalRank
	if j.Roles == nil {
		in.Devices = l.Devices.Environ(l.Binding, in.Workers)
		return nil
	}
	team, err := roles.NewTeam(j.Roles, j.Place(in.Nodes), endpoints)
	if err != nil {
		return err
	}
	in.Team, in.Tasks, in.Role = team, team.Nodes[in.NodeRank], launch.ParameterServers()
	in.Workers, in.AgentSocket = len(in.Tasks), ""
	for _, d := range l.Devices.Devices {
		in.DeviceIDs = append(in.DeviceIDs, d.Label)
	}
	return nil
}

// counted is the role as the record of the node has it.
func counted(role string) string {
	if role == "default" {
		return ""
	}
	return role
}

// inputs collects all values that the environments of one start depend on.
func (w *workers) inputs(s message.Start) (launch.Inputs, error) {
	world, job := s.World, w.job.Load()
	in := launch.Inputs{
		Job: string(w.o.Job.Name), Generation: uint64(world.Generation),
		MaxRestarts: job.Rules.MaxRestarts,
		Node:        s.Node, NodeRank: s.Rank, Nodes: world.Count,
		FirstRank: s.Rank * world.Slots, Workers: world.Slots, WorldSize: world.Size(),
		PreviousWorldSize: world.Previous,
		CheckpointDir:     w.checkpoints(), RunDir: filepath.Join(w.dir, disk.RunDir), Plan: world.Plan,
		LRScale:   world.LRScale,
		Endpoints: s.Endpoints, Inherited: w.o.Environ, HelperDir: w.helper(), AgentSocket: w.stay.Path(),
		LogDir: w.logs.Dir(), Waits: s.Waits, Others: launch.Others(world.OtherRoles(s.Rank)),
	}
	if world.Master != nil {
		in.MasterHost, in.MasterPort, in.PaddlePort = world.Master.Host, world.Master.Port, world.Master.Store
	}
	for _, m := range world.Members {
		host, _, err := net.SplitHostPort(m.Address)
		if err != nil {
			return in, err
		}
		in.Hosts = append(in.Hosts, host)
	}
	for _, p := range s.Ports[min(2, len(s.Ports)):] {
		in.Own = append(in.Own, net.JoinHostPort(in.Hosts[s.Rank], strconv.Itoa(p)))
	}
	if err := w.o.Launcher.Fill(&in, job, s.Endpoints); err != nil {
		return in, err
	}
	if world.Resume != nil {
		in.Resume = &launch.Resume{From: s.Resume.From, Step: s.Resume.Step, Samples: s.Resume.Samples}
		if s.Resume.From == "" { // this node did not fetch the checkpoint; all ranks get the same step
			in.Resume.Step, in.Resume.Samples = world.Resume.Step, world.Resume.Samples
		}
	}
	return in, nil
}

// specOf returns the spec of one start, with the environment and arguments of each worker.
func (w *workers) specOf(in launch.Inputs) (worker.Spec, error) {
	spec := w.spec()
	spec.Job, spec.Node, spec.Generation, spec.WorldSize = in.Job, in.Node, in.Generation, in.WorldSize
	spec.Waits = in.Waits
	spec.Argv, spec.Env, spec.Dir = append([]string{w.o.Program}, w.o.Args...), launch.Environ(in), w.o.Dir
	spec.RunDir = filepath.Dir(launch.DrainFile(in.RunDir, in.Generation))
	for i := range spec.Env {
		spec.Env[i] = hang.Tell(spec.Env[i], filepath.Join(spec.RunDir, strconv.Itoa(i)),
			filepath.Join(w.helper(), python.WatchDir))
	}
	spec.Lead = w.o.Launcher.Lead
	for k := range in.Workers {
		spec.Ranks = append(spec.Ranks, in.FirstRank+k)
		spec.Args = append(spec.Args, launch.LocalRank(w.o.Args, k))
	}
	if !w.o.Launcher.NUMA {
		return spec, nil
	}
	var err error
	spec.CPUs, err = w.o.Launcher.Devices.CPUs(device.Host{}, in.Workers, device.Allowed())
	return spec, err
}

// record writes the variables of the workers to the files that Paddle's tools read, and announces
// the first start. If a file cannot be written, the user gets a notice, and the workers start
// anyway.
func (w *workers) record(in launch.Inputs) {
	files, err := launch.Records(in)
	for _, f := range files {
		write := w.logs.Write
		if f.Append {
			write = w.logs.Append
		}
		if werr := write(f.Name, f.Content); werr != nil && err == nil {
			err = werr
		}
	}
	if err != nil {
		w.notice("the variables of the workers could not be recorded: " + err.Error())
	}
	if w.o.Launcher.Announce && !w.announced {
		w.announced = true
		said := launch.Announce
		if in.Team != nil {
			said = launch.AnnounceTasks
		}
		for line := range strings.Lines(said(in, shownDir(w.logs.Dir()), time.Now())) {
			w.raw(strings.TrimSuffix(line, "\n"))
		}
	}
}

// prefix returns the function that makes the prefix of each line shown by --tee, or copied.
func (w *workers) prefix(template string) func(local, rank int) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	role := launch.Trainer(w.o.Launcher.Role).String()
	return func(local, rank int) string {
		return strings.NewReplacer("${role_name}", role, "${local_rank}", strconv.Itoa(local),
			"${rank}", strconv.Itoa(rank), "${hostname}", host).Replace(template)
	}
}

// torchPrefix is the prefix of torchrun.
const torchPrefix = "[${role_name}${local_rank}]:"

// logOptions returns where the output of workers is written and shown.
func (w *workers) logOptions(node string, job rendezvous.Job) output.Options {
	l := w.o.Launcher
	template := l.Prefix
	if template == "" {
		template = torchPrefix
	}
	label := w.prefix(template)
	return output.Options{Dir: w.o.LogDir, Node: node, Run: run(job), Apart: w.o.SplitLogs, Keep: w.o.LogKeep,
		Console: w.o.Stdout, Show: output.Shown(w.o.Console, w.o.Tee, w.o.Redirects), Notice: w.notice,
		Prefix: rankPrefix,
		Label:  label, Labelled: func(local int) bool { return w.o.Tee.Of(local) != output.None },
		CopyOut: l.CopyOut, CopyErr: l.CopyErr}
}

// shownDir returns dir relative to the working directory if it is inside it.
func shownDir(dir string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, dir); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return dir
}

// startProcesses starts the processes of a spec. Trainers start in the guardian that stands by, if that is
// still alive and has as many worker slots: a new attempt of the job may have a different number of them.
func (w *workers) startProcesses(ctx context.Context, in launch.Inputs, spec worker.Spec) (processes, error) {
	if in.Team != nil {
		e, err := ensemble.Start(ctx, w.team(in, spec))
		if err != nil {
			return nil, err
		}
		return e, nil
	}
	if w.o.Launcher.Mode == RPC {
		names := map[int]string{}
		for k, rank := range spec.Ranks {
			names[k] = "workerlog." + strconv.Itoa(rank)
		}
		w.logs.Rename(names)
	}
	defer w.prepare(len(spec.Env))
	g, err := (*worker.Group)(nil), worker.ErrNoGuardian
	if p := w.take(); p != nil {
		g, err = p.Start(ctx, spec)
	}
	if errors.Is(err, worker.ErrNoGuardian) || errors.Is(err, os.ErrInvalid) {
		g, err = worker.Start(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	if !in.Waits { // waiting workers are themselves warm workers
		w.warmLater(g, spec)
	}
	return g, nil
}

// prepareSpec returns the spec of one start. It empties the run directory, and records the variables.
func (w *workers) prepareSpec(in launch.Inputs) (worker.Spec, error) {
	spec, err := w.specOf(in)
	if err == nil {
		err = os.RemoveAll(spec.RunDir)
	}
	if err != nil {
		return spec, refused{err, 125}
	}
	if !in.Waits { // waiting workers get the variables of a world later, when they join it
		w.record(in)
	}
	return spec, nil
}

// team returns the configuration of the processes of one generation in a job with servers.
func (w *workers) team(in launch.Inputs, spec worker.Spec) ensemble.Config {
	return ensemble.Config{Life: w.effects, Spec: spec, Tasks: in.Tasks, Team: in.Team,
		Restarts:    in.MaxRestarts,
		RefillAfter: rendezvous.RefillAfter, Notice: w.notice, Through: w.through}
}

// through tells the user that the trainers are done and the servers were ended. It uses the words
// of Paddle's launcher if the user asked for its lines.
func (w *workers) through(tasks []roles.Task) {
	if w.o.Launcher.Announce {
		for _, line := range launch.AnnounceEnd(tasks, time.Now()) {
			w.raw(line)
		}
		return
	}
	servers := len(slices.DeleteFunc(slices.Clone(tasks),
		func(t roles.Task) bool { return t.Role != roles.Server }))
	if servers > 0 {
		w.notice("the trainers are done; ended " + phrase.Count(servers, "server"))
	}
}
