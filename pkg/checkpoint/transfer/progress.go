package transfer

import (
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// progress counts the bytes of the checkpoint, once per node, for the user.
type progress struct {
	each   int64 // bytes of the checkpoint
	total  int64 // for all nodes
	report func(done, total int64)

	mu   sync.Mutex
	done map[string]int64 // by node
}

func newProgress(m *manifest.Manifest, nodes int, report func(done, total int64)) *progress {
	p := &progress{report: report, done: map[string]int64{}}
	for _, size := range m.DistinctChunks() {
		p.each += size
	}
	p.total = p.each * int64(nodes)
	return p
}

// add counts n more bytes of a node.
func (p *progress) add(node string, n int64) { p.set(node, func(was int64) int64 { return was + n }) }

// reach sets the bytes of a node to n.
func (p *progress) reach(node string, n int64) { p.set(node, func(int64) int64 { return n }) }

func (p *progress) set(node string, f func(int64) int64) {
	if p.report == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[node] = f(p.done[node])
	var sum int64
	for _, n := range p.done {
		sum += n
	}
	p.report(sum, p.total)
}
