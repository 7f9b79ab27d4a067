package node

import (
	"sync"

	"github.com/elasticd/elastic/internal/agent/message"
)

// notices delays all other lines until the agent has written its first one, which describes the
// size of the job.
type notices struct {
	say func(message.Line)

	mu    sync.Mutex
	begun bool
	early []message.Line
}

// agent writes a line of the agent.
func (n *notices) agent(l message.Line) {
	n.say(l)
	if !l.Early {
		n.flush()
	}
}

// notice writes a line that is not one of the agent.
func (n *notices) notice(text string) { n.tell(message.Line{Text: text}) }

// raw writes a text without the prefix "elastic: ".
func (n *notices) raw(text string) { n.tell(message.Line{Text: text, Raw: true}) }

// tell writes a line, or keeps it until flush.
func (n *notices) tell(l message.Line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.begun {
		n.say(l)
		return
	}
	n.early = append(n.early, l)
}

// flush writes the lines that were kept. Later ones are written at once.
func (n *notices) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun = true
	for _, l := range n.early {
		n.say(l)
	}
	n.early = nil
}
