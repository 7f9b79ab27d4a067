package node

import (
	"sync"

	"github.com/elasticd/elastic/internal/agent/machine"
)

// notices keeps what others notice back until the agent has said its first line: the arithmetic of the
// job is what a run begins with.
type notices struct {
	say func(machine.Line)

	mu    sync.Mutex
	begun bool
	early []string
}

// agent says a line of the agent's own.
func (n *notices) agent(l machine.Line) {
	n.say(l)
	if !l.Early {
		n.flush()
	}
}

func (n *notices) notice(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.begun {
		n.say(machine.Line{Text: text})
		return
	}
	n.early = append(n.early, text)
}

func (n *notices) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun = true
	for _, text := range n.early {
		n.say(machine.Line{Text: text})
	}
	n.early = nil
}
