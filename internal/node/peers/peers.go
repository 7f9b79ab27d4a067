// Package peers connects this agent to the other agents of the job.
package peers

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/peer"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// stalled is how long the agent's loop may be silent before its heartbeats stop. The loop ticks
// four times a second, so a silent loop hangs, and the other nodes must see that.
const stalled = 1500 * time.Millisecond

// Peers are the other agents of the job.
type Peers struct {
	place   *Place
	effects *scope.Scope
	Server  *peer.Server
	signals chan membership.Signal
	news    chan struct{} // holds one value when larger is set

	mu      sync.Mutex // guards what follows: Tell and Open write it, many connections read it
	hello   peer.Hello
	knows   plan.Knowledge
	alive   time.Time // when the loop last called Tell
	secret  []byte
	client  *peer.Client
	watcher *membership.Watcher
	larger  schema.Generation // newest generation heard of, above that of the agent; not yet passed on
}

// New returns the peers of a node. All its goroutines end with effects.
func New(effects *scope.Scope, at *Place) *Peers {
	return &Peers{place: at, effects: effects, Server: at.Server, signals: make(chan membership.Signal),
		news: make(chan struct{}, 1)}
}

// Share lets other nodes read and write the chunk store of this node. See transfer.Handler.
func (p *Peers) Share(chunks *chunkstore.Store, slow func(time.Duration)) {
	p.Server.Handle(transfer.Prefix, transfer.Handler(chunks, slow))
}

// Here returns the address at which others dial this agent.
func (p *Peers) Here() string { return p.place.Here() }

// Open lets this agent prove that it belongs to the job, and answer nodes that prove the same. A later
// call for a job that was made again replaces the secret.
func (p *Peers) Open(secret []byte, job schema.Job, uid schema.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hello.Job, p.hello.UID = job, uid
	if p.client != nil {
		if !bytes.Equal(secret, p.secret) {
			p.rekey(secret)
		}
		return
	}
	p.secret = secret
	self := peer.Self{Hello: p.Self, Holds: p.holds, Heard: p.heard}
	client, err := peer.Dial(secret, self)
	if err != nil {
		return // the secret is invalid: no node can be reached, and only leases show lost nodes
	}
	p.client = client
	p.watcher = membership.NewWatcher(client, membership.DefaultBeats(), p.signals)
	if err := p.Server.Serve(secret, self); err != nil {
		return
	}
	p.effects.Go(func(ctx context.Context) {
		select {
		case <-time.After(membership.UntilTick(time.Now(), machine.Tick)): // the watcher ticks with the agent
		case <-ctx.Done():
		}
		p.watcher.Run(ctx)
	})
	p.effects.Go(p.passOn)
}

// rekey connects to the nodes of a job that was made again with another secret. mu is held.
func (p *Peers) rekey(secret []byte) {
	// With an invalid secret no node can be reached, and only leases show lost nodes.
	if p.client.Rekey(secret) == nil && p.Server.Rekey(secret) == nil {
		p.secret = secret
	}
}

// heard records that another agent has generation g. Connections call it, so it must not block. The
// agent later gets the largest g once.
func (p *Peers) heard(g schema.Generation) {
	p.mu.Lock()
	p.larger = max(p.larger, g)
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default: // passOn will read the larger one
	}
}

// passOn tells the agent the largest generation that was heard of.
func (p *Peers) passOn(ctx context.Context) {
	for {
		select {
		case <-p.news:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		g := p.larger
		p.larger = 0
		p.mu.Unlock()
		select {
		case p.signals <- membership.Signal{Answer: membership.Answer{Generation: g}}:
		case <-ctx.Done():
			return
		}
	}
}

// Self returns what this agent says about itself to nodes that dial it.
func (p *Peers) Self() peer.Hello {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hello
	h.Stalled = time.Since(p.alive) > stalled
	return h
}

// holds reports whether this agent suspects a node now.
func (p *Peers) holds(about membership.Ref) bool {
	p.mu.Lock()
	w := p.watcher
	p.mu.Unlock()
	return w != nil && w.Holds(about)
}

// Tell sets what this agent says about itself, and proves that its loop is alive.
func (p *Peers) Tell(h message.Hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive, p.knows = time.Now(), h.Knows
	p.hello.Node, p.hello.Incarnation, p.hello.Generation = h.Node, h.Incarnation, h.Generation
	p.hello.Failed, p.hello.Ended, p.hello.Stays = h.Failed, h.Ended, h.Stays
}

// opened returns the client and the watcher; nil before Open.
func (p *Peers) opened() (*peer.Client, *membership.Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client, p.watcher
}

// Probe dials a node once.
func (p *Peers) Probe(ctx context.Context, to membership.Ref) membership.Answer {
	if c, _ := p.opened(); c != nil {
		return c.Probe(ctx, to)
	}
	return membership.Answer{}
}

// Confirm is Probe with the time that an answer takes as its limit.
func (p *Peers) Confirm(ctx context.Context, to membership.Ref) membership.Answer {
	if c, _ := p.opened(); c != nil {
		return c.Confirm(ctx, to)
	}
	return membership.Answer{}
}

// Holds asks a watcher whether it still suspects about.
func (p *Peers) Holds(ctx context.Context, watcher, about membership.Ref) bool {
	c, _ := p.opened()
	if c == nil {
		return false
	}
	holds, err := c.Ask(ctx, watcher, about)
	return err == nil && holds
}

// Reach asks a node to dial an address.
func (p *Peers) Reach(ctx context.Context, by membership.Ref, address string) (membership.AnswerKind, error) {
	c, _ := p.opened()
	if c == nil {
		return 0, errors.New("the job's secret is not known")
	}
	return c.Reach(ctx, by, address)
}

// Watch sets the nodes to watch.
func (p *Peers) Watch(refs []membership.Ref) {
	if _, w := p.opened(); w != nil {
		w.Set(refs)
	}
}

// Signals delivers what the watch finds, and newer generations of which other nodes told.
func (p *Peers) Signals() <-chan membership.Signal { return p.signals }

// To returns the transport to one incarnation of a node.
func (p *Peers) To(r membership.Ref) http.RoundTripper {
	if c, _ := p.opened(); c != nil {
		return c.To(r)
	}
	// Without the secret no node can be reached.
	return http.NewFileTransport(http.Dir("/nonexistent"))
}
