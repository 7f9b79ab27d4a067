package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent"
	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"

	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// sim is a cluster of agents in one process: the real agent code, the real requests and an etcd in
// memory. It plays workers, the network between agents, and disks. It runs in a synctest bubble
// with its own time.
type sim struct {
	t       *testing.T
	etcd    *memory.Cluster
	job     rendezvous.Job
	program func(s *simGroup)               // what a worker does
	ahead   map[string]time.Duration        // by how much the wall clock of a host is ahead
	clocks  bool                            // wall clocks are set while agents run
	removed map[schema.UID]bool             // jobs that an operator removed
	real    bool                            // checkpoints are kept, by the saves of production
	exits   bool                            // a capture learns of workers that end without a signal
	gaps    bool                            // changes are missing in the history of the store
	begins  func(*simGroup)                 // workers are started, or are handed a world; mu is held
	fated   func(*simAgent, memory.Op) bool // nil, or which requests are applied and never answered
	lie     func() bool                     // whether a worker that lies does so now; nil: always. mu is held

	all   []store.Range // what snapshot reads
	read  lastRead
	again context.CancelFunc // has the observer begin again; guarded by mu

	mu     sync.Mutex
	rng    chance
	hosts  map[string]*simHost
	agents []*simAgent
	empty  map[string]bool            // addresses that no machine has any more
	apart  func(a, b string) bool     // which hosts do not reach each other; nil: none
	vain   func(from, to string) bool // which dials fail, from a host to another one; nil: none
	base   rendezvous.World           // what the store showed when it was set back last
	trace  []traceLine
	wrong  []string
	least  int     // number of nodes that was ever wished for by scale; 0: none was
	kept   int     // how often workers went on in another generation
	first  int     // and how often in their first one, which they had waited for
	failed int     // how often workers ended by themselves with an error
	doubts []doubt // reports of saves that wait
	// partless is the newest report of a save that was not taken, because a node does not have its part
	partless string
	began    time.Time
}

// doubt is a report of a save that waits, of an agent in a generation.
type doubt struct {
	at time.Time
	by *simAgent
	in int // the number of its groups of workers
}

// traceLine is a line of the story.
type traceLine struct {
	at   time.Duration
	text string
}

// simAgent is one process.
type simAgent struct {
	s       *sim
	host    *simHost
	name    string // wanted
	cfg     agent.Config
	client  *memory.Client
	signals chan os.Signal
	done    chan struct{}
	stop    context.CancelFunc // ends the context that it runs in
	result  message.Result
	process *memfs.Process // what it sees of its host's disk
	disk    *disk.Disk
	kept    *keptSaves // nil: its saves are simulated by simSaves
	opened  bool       // it uses the data of a job

	// guarded by sim.mu
	node  string
	hello message.Hello
	// speaksAs is the job whose secret it has. Nodes of another job do not answer it.
	speaksAs schema.UID
	watch    []membership.Ref
	crowd    map[membership.Incarnation]membership.Sign
	again    bool // what is held is reported again
	noted    chan membership.Signal
	frozen   chan struct{} // closed when it goes on; nil while it runs
	dead     chan struct{}
	cut      bool // from its peers
	groups   []*simGroup
	address  string

	unwritten int                            // how often Remember failed
	sweep     error                          // the result of Sweep
	stuck     struct{ close, handOver bool } // Close or HandOver of its saves does not return
	upSince   time.Time                      // it was not disturbed since
	bad       bool                           // its requests are lost and late
	way       oneWay                         // to the store
	storeless bool                           // cut from the store, both ways
	leaves    bool                           // the simulation asked it to leave
}

func newSim(t *testing.T, np string, seed uint64) *sim {
	s := &sim{t: t, etcd: memory.New(), rng: chance{seed}, hosts: map[string]*simHost{},
		empty: map[string]bool{}, removed: map[schema.UID]bool{}, began: time.Now()}
	l := rendezvous.Limits{Exact: true}
	if _, err := fmt.Sscanf(np, "%d:%d", &l.Min, &l.Max); err == nil {
		l.Exact = false
	} else {
		fmt.Sscan(np, &l.Max)
		l.Min = l.Max
	}
	s.job = rendezvous.Job{Name: "x", Limits: l, Slots: 1,
		Base: scaling.Base{Batch: 256, LR: 0.1, Nodes: l.Max, Slots: 1},
		Rules: rendezvous.Rules{MaxRestarts: 3, LastCall: rendezvous.Seconds(3 * time.Second),
			Grace: rendezvous.Seconds(5 * time.Second), Replicas: 2, Keep: 3, Load: "all"}}
	s.program, s.all = func(g *simGroup) {}, decided(s.job.Name)
	s.etcd.Spread()
	// events get a Rev
	s.etcd.Share(func(key string) bool { return !strings.HasPrefix(key, s.job.Name.Events()) })
	time.Sleep(1234567) // what a test does falls on no tick of an agent
	return s
}

func (s *sim) tracef(format string, args ...any) {
	s.trace = append(s.trace, traceLine{time.Since(s.began), fmt.Sprintf(format, args...)})
}

func (s *sim) wrongf(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	s.tracef("WRONG: "+format, args...)
}

// start starts an agent on a host of that name.
func (s *sim) start(name string) *simAgent {
	a := s.makeAgent(name)
	s.run(a)
	return a
}

// form starts agents, and waits until generation 1 runs with all of them.
func (s *sim) form(names ...string) (agents []*simAgent) {
	s.t.Helper()
	for _, name := range names {
		agents = append(agents, s.start(name))
	}
	s.until("generation 1 runs", 10*time.Second, s.running(1, len(names)))
	return agents
}

// letters names n nodes.
func letters(n int) (names []string) {
	for i := range n {
		names = append(names, string(rune('a'+i)))
	}
	return names
}

// makeAgent makes an agent that does not run yet.
func (s *sim) makeAgent(name string) *simAgent {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[name]
	if h == nil {
		h = newHost(name)
		if s.clocks {
			h.jumped = new(atomic.Int64)
		}
		s.hosts[name] = h
	}
	a := &simAgent{s: s, host: h, name: name, client: s.etcd.Client(name), signals: make(chan os.Signal, 4),
		done: make(chan struct{}), dead: make(chan struct{}), noted: make(chan membership.Signal, 256),
		crowd: map[membership.Incarnation]membership.Sign{}}
	a.client.Fates(a.fate)
	a.process = h.state.Process()
	var err error
	if a.disk, err = disk.Of(a.process, s.job.Name); err != nil {
		s.t.Fatal(err)
	}
	a.address = fmt.Sprintf("%s-%d:1", name, len(s.agents))
	a.cfg = agent.Config{Times: plan.DefaultTimeouts, Config: joining.Config{Job: s.job, Given: map[string]bool{},
		Node: cmp.Or(h.node, name), NodeGiven: h.node != "" && h.node != name, Machine: name, Warm: true,
		Hardware: machines.Machine{ID: "m-" + name, Hostname: name}, LeaseTTL: 3 * time.Second}}
	return a
}

// run begins what makeAgent made.
func (s *sim) run(a *simAgent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var saves agent.Saves = simSaves{a}
	if s.real {
		a.kept = newKeptSaves(a)
		saves = a.kept
	}
	k := time.Duration(len(s.agents))
	deps := agent.Deps{Store: skew(a.client, s.ahead[a.name], a.host.jumped), Workers: a,
		Peers: (*simPeers)(a), Disk: simDisk{a.disk, a}, Saves: saves, Say: func(l message.Line) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tracef("%s says: %s", a.label(), l.Text)
		}, Pace: agent.Pace{Gate: a.gate, Phase: k*83%250*time.Millisecond + k*1013}} // no two act in one moment
	a.upSince = time.Now()
	s.agents = append(s.agents, a)
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	s.tracef("%s starts%s", a.name, a.host.knows(s.job.Name))
	go func() {
		defer close(a.done)
		r := agent.Run(ctx, a.cfg, deps, a.signals)
		if a.kept != nil {
			a.kept.end()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		a.result = r
		s.tracef("%s ends with %d (%v)", a.label(), r.Status, r.Err)
		a.release()
	}()
	go a.detect(k * 1019)
}

func (a *simAgent) label() string {
	if a.node == "" {
		return a.name
	}
	return a.node
}

// gate blocks a frozen process, and ends a killed one.
func (a *simAgent) gate() {
	for {
		// Everything at this moment has happened, so the order of its events does not depend on the
		// scheduler. The agent acts at whole milliseconds, and the next gate does not.
		time.Sleep(time.Duration(1 + a.s.rng.of(a.name, "gate").IntN(1000)))
		a.s.mu.Lock()
		f := a.frozen
		a.s.mu.Unlock()
		select {
		case <-a.dead:
			runtime.Goexit()
		default:
		}
		if f == nil {
			return
		}
		select {
		case <-f:
		case <-a.dead:
		}
	}
}

// moment is the pause before the story interferes: agents that act at this time have acted.
const moment = 10 * time.Microsecond

// kill ends the process as SIGKILL does; its guardian ends its workers.
func (a *simAgent) kill() {
	time.Sleep(moment) // agents that act at this time have acted
	a.s.mu.Lock()
	if a.isDead() {
		a.s.mu.Unlock()
		return
	}
	a.s.tracef("%s is killed", a.label())
	close(a.dead)
	for _, g := range a.groups {
		g.end(nil)
	}
	a.release()
	a.s.mu.Unlock()
	a.client.Stop()
	a.signals <- os.Interrupt // any signal makes the loop reach its gate
	if a.kept != nil {
		a.kept.effects.End()
	}
	<-a.done
	if a.kept != nil {
		a.kept.end()
	}
	a.client.Continue() // what was under way arrives late
}

func (a *simAgent) release() {
	a.process.Kill()
	select {
	case <-a.dead:
	default:
		close(a.dead)
	}
}

func (a *simAgent) isDead() bool {
	select {
	case <-a.dead:
		return true
	default:
		return false
	}
}

func (a *simAgent) freeze() {
	time.Sleep(moment)
	a.s.mu.Lock()
	a.s.tracef("%s freezes", a.label())
	if a.frozen == nil {
		a.frozen = make(chan struct{})
	}
	a.s.mu.Unlock()
	a.client.Stop()
}

func (a *simAgent) thaw() {
	time.Sleep(moment)
	a.s.mu.Lock()
	a.s.tracef("%s thaws", a.label())
	if a.frozen != nil {
		close(a.frozen)
		a.frozen = nil
	}
	a.s.mu.Unlock()
	a.client.Continue()
}

// --- Workers

func (a *simAgent) Open(node string, job rendezvous.Job, committed []checkpoint.Head) (string, error) {
	a.s.mu.Lock()
	a.node, a.host.node = node, node
	a.s.mu.Unlock()
	if _, err := a.disk.Adopt(node, job, committed); err != nil {
		return "", err
	}
	a.s.mu.Lock()
	a.opened, a.host.uid = true, job.UID
	a.s.mu.Unlock()
	if a.kept != nil {
		return "log", a.kept.join(node, job)
	}
	return "log", nil
}

func (a *simAgent) AdoptJob(job rendezvous.Job) error {
	if err := a.disk.Continue(a.node, job); err != nil {
		return err
	}
	a.s.mu.Lock()
	a.s.tracef("%s goes on in job %s", a.label(), job.UID)
	a.host.uid = job.UID
	a.s.mu.Unlock()
	if a.kept != nil {
		a.kept.AdoptJob(job)
	}
	return nil
}

func (a *simAgent) Sweep(context.Context) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.sweep
}
func (a *simAgent) Ports(n int, _ string) ([]int, error) { return make([]int, n), nil }

// between is a random number of milliseconds.
func (s *sim) between(lo, hi int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(lo+s.rng.IntN(hi-lo)) * time.Millisecond
}

// --- Peers

type simPeers simAgent

func (p *simPeers) Open(_ []byte, _ schema.Job, uid schema.UID) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.speaksAs = uid
}

func (p *simPeers) Here() string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.address
}
func (p *simPeers) Signals() <-chan membership.Signal { return p.noted }

func (p *simPeers) Tell(h message.Hello) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.hello = h
}

func (p *simPeers) Watch(refs []membership.Ref) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.watch = refs
	p.again = true
}

// answer is the result of a dial of ref now. mu is held.
func (p *simPeers) answer(ref membership.Ref) membership.Answer {
	if p.cut {
		return membership.Answer{}
	}
	for _, b := range p.s.agents {
		if b.address != ref.Address {
			continue
		}
		switch {
		case p.s.apart != nil && (p.s.apart(p.name, b.name) || p.s.apart(b.name, p.name)),
			p.s.vain != nil && p.s.vain(p.name, b.name):
			return membership.Answer{}
		case b.cut || b.frozen != nil && !b.isDead():
			return membership.Answer{}
		case b.isDead():
			return membership.Answer{Kind: membership.Refused}
		case b.hello.Incarnation == ref.Incarnation:
			return membership.Answer{Kind: membership.Same, Incarnation: ref.Incarnation,
				Generation: b.hello.Generation, Failed: b.hello.Failed, Ended: b.hello.Ended,
				Stays: b.hello.Stays}
		case b.hello.Incarnation == "":
			return membership.Answer{}
		}
		return membership.Answer{Kind: membership.Other, Incarnation: b.hello.Incarnation}
	}
	if p.s.empty[ref.Address] {
		return membership.Answer{}
	}
	return membership.Answer{Kind: membership.Refused}
}

func (p *simPeers) Confirm(ctx context.Context, ref membership.Ref) membership.Answer {
	return p.Probe(ctx, ref)
}

func (p *simPeers) Probe(ctx context.Context, ref membership.Ref) membership.Answer {
	time.Sleep(time.Millisecond + p.s.rng.latency(p.name, "probe", ref.Address))
	p.s.mu.Lock()
	a := p.answer(ref)
	p.s.mu.Unlock()
	if a.Kind == membership.NoAnswer {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return a
}

func (p *simPeers) Reach(
	_ context.Context, by membership.Ref, address string) (membership.AnswerKind, error) {
	time.Sleep(p.s.rng.latency(p.name, "reach", by.Address))
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.answer(by).Kind != membership.Same {
		return 0, errors.New("no answer")
	}
	for _, b := range p.s.agents {
		if b.address == by.Address && p.s.vain != nil && p.s.vain(b.name, p.name) {
			return membership.NoAnswer, nil
		}
	}
	return membership.Same, nil
}

func (p *simPeers) Holds(_ context.Context, w, about membership.Ref) bool {
	time.Sleep(p.s.rng.latency(p.name, "holds", w.Address, about.Address))
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.answer(w).Kind != membership.Same {
		return false
	}
	for _, b := range p.s.agents {
		if b.address == w.Address {
			return slices.ContainsFunc(b.hello.Suspects, about.Same)
		}
	}
	return false
}

// detect plays the heartbeats: a broken connection at once, silence after a second.
func (a *simAgent) detect(later time.Duration) {
	select {
	case <-a.done:
		return
	case <-time.After(later):
	}
	silent := map[membership.Incarnation]int{}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-a.done:
			return
		case <-tick.C:
		}
		a.s.mu.Lock()
		if a.frozen != nil || a.isDead() {
			clear(silent)
			a.s.mu.Unlock()
			continue
		}
		var out []membership.Signal
		for _, r := range a.watch {
			ans := (*simPeers)(a).answer(r)
			sign := membership.Sign("")
			switch ans.Kind {
			case membership.Same:
				silent[r.Incarnation] = 0
			case membership.NoAnswer:
				if silent[r.Incarnation]++; silent[r.Incarnation] >= 10 {
					sign = membership.Silent
				}
			default:
				sign = membership.ConnectionClosed
			}
			if sign != a.crowd[r.Incarnation] || a.again && sign != "" {
				a.crowd[r.Incarnation] = sign
				out = append(out, membership.Signal{Ref: r, Sign: sign, Answer: ans})
			}
		}
		a.again = false
		if g := a.peerGeneration(); g > a.hello.Generation {
			out = append(out, membership.Signal{Answer: membership.Answer{Generation: g}})
		}
		a.s.mu.Unlock()
		for _, x := range out {
			select {
			case a.noted <- x:
			case <-a.done:
				return
			}
		}
	}
}

// peerGeneration is the largest generation in its heartbeats, from the nodes that it watches and
// from its watchers. mu is held.
func (a *simAgent) peerGeneration() (g schema.Generation) {
	for _, b := range a.s.agents {
		watch := func(x, y *simAgent) bool {
			return slices.ContainsFunc(x.watch, func(r membership.Ref) bool { return r.Address == y.address })
		}
		if !a.cut && !b.cut && b.frozen == nil && !b.isDead() && (watch(a, b) || watch(b, a)) {
			g = max(g, b.hello.Generation)
		}
	}
	return g
}

var errNoAnswer = errors.New("no answer")

// Knows implements joining.RecoveryPeers.
func (p *simPeers) Knows(ctx context.Context, of membership.Ref) (plan.Knowledge, error) {
	if p.Probe(ctx, of).Kind != membership.Same {
		return plan.Knowledge{}, errNoAnswer
	}
	p.s.mu.Lock()
	at := slices.IndexFunc(p.s.agents, func(b *simAgent) bool { return b.address == of.Address })
	if at < 0 {
		p.s.mu.Unlock()
		return plan.Knowledge{}, errNoAnswer
	}
	b := p.s.agents[at]
	knows, kept := b.hello.Knows, b.kept
	p.s.mu.Unlock()
	if kept == nil {
		return knows, nil
	}
	return plan.MergeKnowledge(knows, kept.Knows(knows.Generation)), nil
}

// --- Saves

// simSaves is the saves of an agent in a simulation without checkpoints.
type simSaves struct{ a *simAgent }

func (simSaves) Nodes([]membership.Node, checkpoint.Head)                            {}
func (simSaves) Behind() <-chan struct{}                                             { return nil }
func (simSaves) Gone() <-chan error                                                  { return nil }
func (simSaves) Open(rendezvous.World, int)                                          {}
func (simSaves) CommitLeft(context.Context, rendezvous.World, membership.Node) error { return nil }
func (simSaves) Stay(rendezvous.World) error                                         { return nil }
func (simSaves) NotReady(error)                                                      {}
func (simSaves) Ready()                                                              {}
func (simSaves) Knows(schema.Generation) (none plan.Knowledge)                       { return none }

func (x simSaves) Fits(context.Context, rendezvous.World) error {
	time.Sleep(x.a.s.rng.latency(x.a.name, "fits"))
	return nil
}

func (x simSaves) Prepare(context.Context, rendezvous.World) (message.Resume, error) {
	time.Sleep(x.a.s.rng.latency(x.a.name, "prepare"))
	return message.Resume{}, nil
}

func (s simSaves) HandOver(ctx context.Context) { s.wait(ctx, s.a.stuck.handOver) }

func (s simSaves) Close(ctx context.Context, _ schema.Generation) error {
	s.wait(ctx, false)
	return nil
}

func (s simSaves) Finish(ctx context.Context, _ schema.Generation) error {
	s.wait(ctx, s.a.stuck.close)
	return nil
}

// wait takes a random time, and if stuck until ctx ends.
func (s simSaves) wait(ctx context.Context, stuck bool) {
	time.Sleep(s.a.s.rng.latency(s.a.name, "saves"))
	if stuck {
		<-ctx.Done()
	}
}
