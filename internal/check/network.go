package check

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/peer"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Network has the settings of the checks between nodes.
type Network struct {
	Nodes
	Secret   []byte // of the job: only its nodes can use what a check opens
	Job      schema.Job
	UID      schema.UID
	PortsLo  int // of workers; 0, 0: any
	PortsHi  int
	MaxSkew  time.Duration
	Transfer time.Duration
}

// Run checks the connections, the clocks and the transfers between the nodes. On a node, only
// problems of this node are failures. The check of another node fails for that node's problems.
func (n *Network) Run(ctx context.Context) ([]Finding, error) {
	client, err := peer.Dial(n.Secret, peer.Self{Hello: func() peer.Hello {
		return peer.Hello{Job: n.Job, UID: n.UID}
	}})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	n.Link = client
	ways, err := n.ways(ctx)
	if err != nil {
		return nil, err
	}
	return []Finding{ways, n.clocks(ctx), n.transfers(ctx)}, ctx.Err()
}

// ways opens a port, as workers do, while the other nodes try to connect to it.
func (n *Network) ways(ctx context.Context) (Finding, error) {
	address := ""
	if me := n.self(); me != nil {
		host, _, err := net.SplitHostPort(me.Address)
		if err != nil {
			return Finding{}, err
		}
		ports, err := launch.Ports(1, n.PortsLo, n.PortsHi, host)
		if err != nil {
			return Finding{Check: "addresses", Failed: true, Text: err.Error()}, nil
		}
		address = net.JoinHostPort(host, strconv.Itoa(ports[0]))
		server, err := peer.Listen(address)
		if err != nil {
			return Finding{}, err
		}
		defer func() {
			end, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = server.Close(end) // connections that stay open end with the process
		}()
		self := peer.Hello{Job: n.Job, UID: n.UID, Node: n.Self, Incarnation: "check"}
		if err := server.Serve(n.Secret, peer.Self{Hello: func() peer.Hello { return self }}); err != nil {
			return Finding{}, err
		}
	}
	w := n.Ways(ctx, address)
	n.absent = w.Unreached
	return n.judgeWays(w, address), nil
}

func (n *Nodes) judgeWays(w Ways, port string) Finding {
	f := Finding{Check: "addresses", Failed: true}
	own := n.self()
	switch {
	case len(w.Blind) > 0:
		f.Text = fmt.Sprintf("%s cannot reach this node at %s: --host=ADDRESS of this machine that "+
			"other nodes reach, or open the port", phrase.List(w.Blind), own.Address)
		f.Nodes = []string{n.Self}
	case len(w.Closed) > 0:
		f.Text = fmt.Sprintf("%s cannot reach port %s of this node, one as workers use: open it, or "+
			"--worker-ports=LO-HI", phrase.List(w.Closed), port)
		f.Nodes = []string{n.Self}
	case len(w.Cut) > 0 && own != nil:
		f.Text = fmt.Sprintf("this node does not reach %s, and other nodes do", phrase.List(w.Cut))
		f.Nodes = []string{n.Self}
	case len(w.Unreached) > 0:
		f.Text, f.Nodes = fmt.Sprintf("%s: no answer", phrase.List(w.Unreached)), w.Unreached
		f.Failed = own == nil
	case own == nil:
		f.Failed, f.Text = false, fmt.Sprintf("%s answer", phrase.Count(w.Asked, "node"))
	default:
		f.Failed = false
		f.Text = fmt.Sprintf("this node and %s reach each other", phrase.Count(w.Asked, "other"))
	}
	return f
}

func (n *Network) clocks(ctx context.Context) Finding {
	offsets := n.Clocks(ctx)
	offsets[n.Self] = 0 // the clock of this machine, which may be no node
	names := Skewed(offsets, n.MaxSkew)
	f := Finding{Check: "clock", Nodes: names}
	if len(names) == 0 {
		var most time.Duration
		for _, d := range offsets {
			most = max(most, d.Abs())
		}
		f.Text = fmt.Sprintf("%d clocks within %s", len(offsets), most.Round(time.Millisecond))
		return f
	}
	f.Text = "apart by more than " + n.MaxSkew.String() + ":"
	for i, name := range names {
		if i > 0 {
			f.Text += ","
		}
		at := name
		if name == n.Self {
			at = "this machine"
		}
		f.Text += fmt.Sprintf(" %s (%+.1fs)", at, offsets[name].Seconds())
	}
	// With two clocks it is unknown which one is wrong.
	f.Failed = n.self() == nil || len(offsets) > 2 && slices.Contains(names, n.Self)
	return f
}

func (n *Network) transfers(ctx context.Context) Finding {
	return n.judgeTransfers(n.Nodes.Transfer(ctx, n.Transfer))
}

func (n *Nodes) judgeTransfers(edges []Edge) Finding {
	f := Finding{Check: "transfer"}
	var failed []string
	slowest := Edge{}
	for _, e := range edges {
		switch {
		case e.Err != "":
			failed = append(failed, e.From+" to "+e.To+" ("+e.Err+")")
		case slowest.From == "" || e.Rate < slowest.Rate:
			slowest = e
		}
	}
	names, usual := Slow(edges)
	f.Nodes = names
	f.Failed = slices.Contains(names, n.Self) || n.self() == nil && len(names)+len(failed) > 0
	switch {
	case len(edges) == 0:
		f.Text = "no other node"
	case len(names) > 0:
		f.Text = fmt.Sprintf("%s: all transfers are less than a quarter of the usual %s/s",
			phrase.List(names), Bytes(usual))
	case slowest.From != "":
		f.Text = fmt.Sprintf("usual %s/s, slowest %s/s, %s to %s",
			Bytes(usual), Bytes(slowest.Rate), slowest.From, slowest.To)
	}
	if len(failed) > 0 {
		f.Text = strings.TrimPrefix(f.Text+"; none from "+phrase.List(failed), "; ")
	}
	return f
}

// Ring returns the registered nodes, first those of a world in its order.
func Ring(world []membership.Ref, registered []membership.Node) (ring []membership.Ref) {
	here := map[string]membership.Ref{}
	for _, n := range registered {
		here[n.Node] = n.Ref
	}
	for _, r := range world {
		if now, ok := here[r.Node]; ok {
			ring = append(ring, now)
			delete(here, r.Node)
		}
	}
	for _, n := range registered {
		if _, ok := here[n.Node]; ok {
			ring = append(ring, n.Ref)
		}
	}
	return ring
}
