package run

import (
	"cmp"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/device"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/pkg/scaling"
)

// Placeholders in a preview for values that are known only after the start.
const (
	unknownPort    = "PORT"
	unknownAddress = "ADDRESS"
)

// previewNode is one node of the world of a preview.
type previewNode struct {
	Rank    int    `json:"rank"`
	Node    string `json:"node"`    // "": any node that joins
	Address string `json:"address"` // ADDRESS if it is unknown
	Ranks   []int  `json:"ranks"`
}

// previewWorker is one worker of this node.
type previewWorker struct {
	Rank        int               `json:"rank"`
	Process     string            `json:"process"` // rank 3, server 0
	LocalRank   int               `json:"local_rank"`
	Argv        []string          `json:"argv"`
	CPUs        []int             `json:"cpus"`        // nil: not bound
	Environment map[string]string `json:"environment"` // without inherited variables
}

// preview is generation 1 of a new job with its largest number of nodes, each like this one.
type preview struct {
	World         []previewNode   `json:"world"`
	Workers       []previewWorker `json:"workers"`
	CheckpointDir string          `json:"checkpoint_dir"`
}

// newPreview returns the preview of o. It reads and writes nothing.
func newPreview(o node.Options) (preview, error) {
	j, slots := o.Job, o.Job.Slots
	size := j.Workers(j.Limits.Max)
	plan, err := scaling.For(j.Base, size)
	if err != nil {
		return preview{}, err
	}
	rank := max(o.Place-1, 0)
	p := preview{World: worldOf(&o, rank)}
	dirs := disk.DirsOf(o.StateDir, o.Node, j.Name)
	p.CheckpointDir = cmp.Or(o.CheckpointDir, dirs.Work)
	logs, err := filepath.Abs(o.LogDir)
	if err != nil {
		return preview{}, err
	}
	in := launch.Inputs{
		Job: string(j.Name), Generation: 1, MaxRestarts: j.Rules.MaxRestarts,
		Node: o.Node, NodeRank: rank, Nodes: j.Limits.Max,
		FirstRank: rank * slots, Workers: slots, WorldSize: size,
		CheckpointDir: p.CheckpointDir, RunDir: dirs.Run, Plan: plan, LRScale: j.Base.LRScale(size),
		Inherited: o.Environ, HelperDir: dirs.Helper, LogDir: logs,
		MasterHost: p.World[0].Address, MasterPort: 1, PaddlePort: 1,
	}
	for rank, n := range p.World {
		in.Hosts = append(in.Hosts, n.Address)
		processes := slots
		if j.Roles != nil {
			processes = j.Roles.Ports(j.Place(j.Limits.Max), rank)
		}
		for range processes {
			in.Endpoints = append(in.Endpoints, net.JoinHostPort(n.Address, unknownPort))
		}
	}
	if err := o.Launcher.Fill(&in, &j, in.Endpoints); err != nil {
		return preview{}, err
	}
	p.Workers, err = workersOf(&o, in)
	return p, err
}

func worldOf(o *node.Options, own int) []previewNode {
	nodes := make([]previewNode, o.Job.Limits.Max)
	for rank := range nodes {
		n := previewNode{Rank: rank, Address: unknownAddress}
		if rank < len(o.Job.Hosts) {
			n.Address = o.Job.Hosts[rank]
		}
		if rank == own {
			n.Node, n.Address = o.Node, cmp.Or(o.Host, n.Address)
		}
		if ranks := o.Job.Roles.Ranks(o.Job.Place(o.Job.Limits.Max)); ranks != nil {
			n.Ranks = ranks[rank]
		} else {
			for k := range o.Job.Slots {
				n.Ranks = append(n.Ranks, rank*o.Job.Slots+k)
			}
		}
		nodes[rank] = n
	}
	return nodes
}

func workersOf(o *node.Options, in launch.Inputs) ([]previewWorker, error) {
	cpus := make([][]int, in.Workers)
	if o.Launcher.NUMA {
		var err error
		if cpus, err = o.Launcher.Devices.CPUs(device.Host{}, in.Workers, device.Allowed()); err != nil {
			return nil, err
		}
	}
	given := launch.Given(in)
	var all []previewWorker
	for local, env := range given {
		args := launch.LocalRank(o.Args, local)
		rank := in.FirstRank + local
		w := previewWorker{Rank: rank, Process: "rank " + strconv.Itoa(rank), LocalRank: local,
			Argv: append([]string{o.Program}, args...), CPUs: cpus[local], Environment: map[string]string{}}
		for _, kv := range env {
			name, value, _ := strings.Cut(kv, "=")
			w.Environment[name] = value
		}
		if in.Team != nil {
			w.Rank, w.Process = in.Tasks[local].Index, in.Tasks[local].String()
			all = append(all, w)
			continue
		}
		w.Environment["MASTER_PORT"] = unknownPort
		for _, name := range []string{"PADDLE_MASTER", "PADDLE_MASTER_ENDPOINT"} {
			if w.Environment[name] != "" {
				w.Environment[name] = net.JoinHostPort(in.MasterHost, unknownPort)
			}
		}
		all = append(all, w)
	}
	return all, nil
}
