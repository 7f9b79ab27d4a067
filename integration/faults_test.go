package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// kind is a kind of fault.
type kind struct {
	name  string
	nodes int  // how many nodes it affects; 0: it affects the server
	more  bool // it may affect up to two more nodes at once
	calm  bool // no node may be lost, and no worker restarted
	// strike causes the fault on nodes. undo ends it.
	strike func(l *testbed, nodes []string) (undo func())
}

var everyKind = []kind{
	{name: "kill agent", nodes: 1, more: true, strike: kill((*testbed).agent)},
	{name: "kill agent and worker", nodes: 1, more: true, strike: kill((*testbed).agent, (*testbed).workers)},
	{name: "kill machine", nodes: 1, more: true, strike: kill((*testbed).on)},
	{name: "freeze agent", nodes: 1, more: true, strike: freeze((*testbed).agent)},
	{name: "freeze worker", nodes: 1, more: true, calm: true, strike: freeze((*testbed).workers)},
	{name: "freeze machine", nodes: 1, more: true, strike: freeze((*testbed).on)},
	{name: "cut between", nodes: 2, calm: true, strike: pair(true)}, // silence needs a second witness
	{name: "cut one way between", nodes: 2, calm: true, strike: pair(false)},
	{name: "cut from its peers", nodes: 1, strike: sever((*testbed).peers, both)},
	{name: "cut off", nodes: 1, more: true, strike: sever((*testbed).peersAndServer, both)},
	{name: "cut from the server", nodes: 1, more: true, calm: true, strike: sever(theServer, both)},
	{name: "cut on the way to the server", nodes: 1, calm: true, strike: sever(theServer, there)},
	{name: "cut on the way from the server", nodes: 1, calm: true, strike: sever(theServer, back)},
	{name: "freeze server", calm: true, strike: func(l *testbed, _ []string) func() {
		l.server.signal(syscall.SIGSTOP)
		return func() { l.server.signal(syscall.SIGCONT) }
	}},
	{name: "kill server", calm: true, strike: func(l *testbed, _ []string) func() {
		l.server.end()
		return l.server.start
	}},
}

// kill kills these processes of each node. undo starts the agents again.
func kill(processes ...func(*testbed, string) []process) func(*testbed, []string) func() {
	return func(l *testbed, nodes []string) func() {
		l.signal(syscall.SIGKILL, nodes, processes...)
		return func() {
			for _, name := range nodes {
				l.again(name)
			}
		}
	}
}

func freeze(processes ...func(*testbed, string) []process) func(*testbed, []string) func() {
	return func(l *testbed, nodes []string) func() {
		frozen := l.signal(syscall.SIGSTOP, nodes, processes...)
		return func() {
			for _, x := range frozen {
				x.signal(syscall.SIGCONT)
			}
		}
	}
}

func (l *testbed) signal(
	s syscall.Signal, nodes []string, processes ...func(*testbed, string) []process,
) (all []process) {
	for _, name := range nodes {
		for _, of := range processes {
			all = append(all, of(l, name)...)
		}
	}
	for _, x := range all {
		x.signal(s)
	}
	return all
}

// The directions in which a node can be cut off: from it to the others, and back.
type way int

const (
	there way = 1 << iota
	back
	both = there | back
)

func theServer(*testbed, []string) []string { return []string{"server"} }

// peers returns all nodes except these.
func (l *testbed) peers(nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(l.names), func(n string) bool { return slices.Contains(nodes, n) })
}

func (l *testbed) peersAndServer(nodes []string) []string { return append(l.peers(nodes), "server") }

func sever(from func(*testbed, []string) []string, w way) func(*testbed, []string) func() {
	return func(l *testbed, nodes []string) func() {
		others := from(l, nodes)
		each := func(do func(from, to string)) {
			for _, name := range nodes {
				for _, o := range others {
					if w&there != 0 {
						do(name, o)
					}
					if w&back != 0 {
						do(o, name)
					}
				}
			}
		}
		each(l.cut)
		return func() { each(l.heal) }
	}
}

func pair(twoWay bool) func(*testbed, []string) func() {
	w := there
	if twoWay {
		w = both
	}
	return func(l *testbed, nodes []string) func() {
		return sever(func(*testbed, []string) []string { return nodes[1:] }, w)(l, nodes[:1])
	}
}

// fault is one fault of a round, with its begin and end.
type fault struct {
	kind
	hits      []string
	at, lasts time.Duration
}

func (f fault) String() string {
	return fmt.Sprintf("%s %s after %s for %s", f.name, strings.Join(f.hits, " "), f.at, f.lasts)
}

// draw returns the faults of one round: one or two, on different nodes.
func draw(r *rand.Rand, names []string) []fault {
	names = slices.Clone(names)
	r.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	var all []fault
	for range 1 + r.IntN(2) {
		k := everyKind[r.IntN(len(everyKind))]
		n := k.nodes
		if k.more && r.IntN(4) == 0 {
			n += 1 + r.IntN(2)
		}
		if n > len(names) || n == 0 && slices.ContainsFunc(all, func(f fault) bool { return f.nodes == 0 }) {
			continue // no node is left, or the server is hit already
		}
		lasts := 200 + r.IntN(8000)
		if r.IntN(6) == 0 {
			lasts += 12_000 // beyond the window in which an absent node may register again
		}
		all = append(all, fault{k, names[:n:n], time.Duration(r.IntN(2000)) * time.Millisecond,
			time.Duration(lasts) * time.Millisecond})
		names = names[n:]
	}
	return all
}

// suffer begins and ends the faults of a round, each at its time.
func (l *testbed) suffer(all []fault) {
	l.t.Helper()
	type moment struct {
		at time.Duration
		do func()
	}
	var moments []moment
	for _, f := range all {
		var undo func()
		moments = append(moments, moment{f.at, func() { undo = f.strike(l, f.hits) }},
			moment{f.at + f.lasts, func() { undo() }})
	}
	slices.SortFunc(moments, func(a, b moment) int { return int(a.at - b.at) })
	began := time.Now()
	for _, m := range moments {
		time.Sleep(time.Until(began.Add(m.at)))
		m.do()
	}
}
