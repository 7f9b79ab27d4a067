// Package node runs `elastic run`: it connects the agent to the disk, workers, network and server
// of this node.
package node

import (
	"cmp"
	"context"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/agent"
	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/node/peers"

	"github.com/elasticd/elastic/internal/node/saves"
	"github.com/elasticd/elastic/internal/peer"
	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/internal/worker/proc"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"

	"github.com/elasticd/elastic/pkg/schema"
)

// Run takes part in the job until it ends or this node leaves it. The result has an error if the
// node could not take part.
func Run(ctx context.Context, o Options) message.Result {
	// `elastic run … | head`: if the reader of the output ends, the job must go on. The signal is
	// handled and not ignored, because workers would inherit an ignored signal.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	teller := newTeller(o.Stderr)
	defer teller.close()
	lines := &notices{say: teller.say}
	defer lines.flush()
	effects := scope.New(ctx)
	defer effects.Wait()
	defer effects.End()
	effects.Go(proc.FollowProcessors)

	server, err := peer.Listen(net.JoinHostPort(o.Host, strconv.Itoa(o.Port)))
	if err != nil {
		return message.Result{Status: 125, Err: err}
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Close(end) // connections that stay open end with the process
	}()
	disk, err := disk.Open(o.StateDir, o.Job.Name)
	if err != nil {
		return message.Result{Status: 125, Err: err}
	}
	if o.Local == nil {
		disk.Server = strings.Join(slices.Sorted(slices.Values(o.Endpoints)), ",")
	}
	store := o.Store
	if s := cmp.Or(o.Local, o.Shared); s != nil {
		store = reviveStore(effects, servedStore{Store: o.Store, At: local.Endpoint(o.Endpoints[0])}, *s)
	}
	at := &peers.Place{Server: server, Host: o.Host, Port: o.Port, Now: o.Reaches}
	workers := &workers{o: o, disk: disk, store: store, effects: effects, notice: lines.notice, raw: lines.raw}
	defer workers.close()
	if workers.kubeflow = progress.NewKubeflow(lookUp(o.Environ), lines.notice); workers.kubeflow != nil {
		effects.Go(workers.kubeflow.Run)
	}
	workers.connect(at)
	c := agent.Config{WaitTimeout: o.WaitTimeout, Times: plan.DefaultTimeouts, Hint: hint(o),
		Config: joining.Config{
			Job: o.Job, Given: o.Given, Again: o.Again, Resume: o.Resume, Borrowed: o.Borrowed,
			OtherProgram: o.OtherProgram, Node: o.Node, NodeGiven: o.NodeGiven, Place: o.Place,
			Role:    counted(o.Launcher.Role),
			Machine: bootID(), Hardware: hardware(lookUp(o.Environ)), Warm: o.Warm,
			LeaseTTL: o.LeaseTTL, ConnectTimeout: o.ConnectTimeout,
		}}
	deps := agent.Deps{Store: store, Workers: workers, Peers: workers.peers, Disk: disk,
		Saves: workers.saves, Say: lines.agent}
	return agent.Run(ctx, c, deps, o.Signals)
}

// connect gives the workers the peers and the saves of this node.
func (w *workers) connect(at *peers.Place) {
	w.peers = peers.New(w.effects, at)
	w.peers.Serve(func(g schema.Generation) plan.Knowledge { return w.saves.Knows(g) })
	w.mark = &saves.Mark{Dir: w.o.CheckpointDir, Address: at.Here, Notice: w.notice}
	w.saves = saves.New(saves.Config{Job: w.o.Job.Name, Store: w.store, Effects: w.effects,
		Peers: &transfer.HTTP{To: w.peers.To}, Serve: w.peers.Share,
		Mark: w.mark, Notice: w.notice, PreHook: w.preHook, VerifyEvery: w.o.VerifyEvery, Blame: w.note})
}

// hint tells the user how to add nodes.
func hint(o Options) string {
	if o.Local == nil {
		return "The same line on another machine"
	}
	return "Here: the same line in another terminal. Elsewhere: run elasticd and add --server"
}

// bootID identifies the machine. The copies of a checkpoint must be on different machines.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		name, _ := os.Hostname()
		return name
	}
	return strings.TrimSpace(string(b))
}

// hardware identifies the machine also after it was booted again. $ELASTIC_MACHINE is for containers,
// which do not know their machine.
func hardware(env func(string) string) machines.Machine {
	m := machines.Machine{ID: env("ELASTIC_MACHINE")}
	m.Hostname, _ = os.Hostname()
	if m.ID == "" {
		b, _ := os.ReadFile("/etc/machine-id")
		m.ID = cmp.Or(strings.TrimSpace(string(b)), m.Hostname)
	} else {
		m.Hostname = m.ID
	}
	if !schema.ValidName(m.ID) {
		m.ID = ""
	}
	return m
}

// lookUp returns a function that reads variables of environ. The last one of a name counts.
func lookUp(environ []string) func(string) string {
	return func(name string) (value string) {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				value = v
			}
		}
		return value
	}
}
