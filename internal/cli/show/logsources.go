package show

import (
	"context"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// source is the logs of one node.
type source struct {
	key  string // one incarnation of a node
	node string
	read func(context.Context, logs.Query, func(logs.Line) error) error
}

// sources returns the nodes of this machine, whose logs are files, and the other registered nodes.
func (r *reading) sources() (all []source, err error) {
	kept, err := target.Kept(r.Call, r.snap.Job.Name, r.snap.Job.UID)
	if err != nil {
		return nil, err
	}
	here := map[string]bool{}
	for _, k := range kept {
		dir, err := node.LogsOf(k)
		if err != nil || dir == "" {
			continue
		}
		here[k.Node] = true
		all = append(all, source{"here/" + k.Node, k.Node,
			func(ctx context.Context, q logs.Query, emit func(logs.Line) error) error {
				return logs.Read(ctx, dir, q, func(l logs.Line) error {
					if l.Node != k.Node { // the directory had belonged to another node
						return nil
					}
					return emit(l)
				})
			}})
	}
	all = slices.DeleteFunc(all, func(s source) bool { return !r.asks(s.node) })
	for _, n := range r.snap.Nodes {
		if here[n.Node] || !r.asks(n.Node) {
			continue
		}
		all = append(all, source{string(n.Incarnation), n.Node, func(ctx context.Context, q logs.Query,
			emit func(logs.Line) error) error {
			return logs.Fetch(ctx, r.to(n.Ref), q, emit)
		}})
	}
	return all, nil
}

// kept returns the end of what the worker wrote that failed first, as the server keeps it: its node is
// gone. There may be none.
func (r *reading) kept(ctx context.Context, s store.Store) (lines []logs.Line, err error) {
	g := schema.Generation(r.query.Generation)
	o, err := rendezvous.ReadOutput(ctx, s, r.snap.Job.Name, g)
	if err != nil || o == nil || o.Process == "" && !slices.Contains(r.query.Ranks, o.Rank) {
		return nil, err
	}
	r.Out.Say("the end of its output, from the server: the log is on the disk of %s", o.Node)
	for text := range strings.Lines(o.Text) {
		lines = append(lines, logs.Line{Generation: uint64(g), Rank: o.Rank, Process: o.Process, Node: o.Node,
			Text: phrase.Plain(strings.TrimSuffix(text, "\n"))})
	}
	return lines, nil
}

// asks reports whether the user wants the logs of a node.
func (r *reading) asks(node string) bool {
	only := r.Setting("node")
	return !only.Given || only.Text == node
}

// unknown fails if the job never had the node that the user named.
func (r *reading) unknown() error {
	only := r.Setting("node")
	if !only.Given {
		return nil
	}
	var names []string
	for _, n := range status.Explain(r.snap, r.Out.Now()).Nodes {
		if n.Node == only.Text {
			return nil
		}
		names = append(names, n.Node)
	}
	e := problem.New(problem.Usage, "%s: job %s has no such node", only, r.snap.Job.Name)
	if len(names) > 0 {
		e = e.Because("its nodes are %s", phrase.List(names))
	}
	return e.Cure("elastic nodes %s", r.snap.Job.Name)
}

// missing returns the members of the newest world whose logs cannot be read from here.
func (r *reading) missing(all []source) (names []string) {
	if r.snap.World == nil {
		return nil
	}
	for _, m := range r.snap.World.Members {
		if r.asks(m.Node) && !slices.ContainsFunc(all, func(s source) bool { return s.node == m.Node }) {
			names = append(names, m.Node)
		}
	}
	return names
}

func (r *reading) unread(node string, err error) {
	r.Out.Say("the logs of node %s cannot be read: %v; they are on its disk", node, err)
}
