package membership

import "time"

// Beats are the intervals of a Watcher.
type Beats struct {
	Every    time.Duration // between two beats
	Silence  time.Duration // earliest time without any answer, also to a new dial, for Silent
	First    time.Duration // the same for a node that never answered, at most
	Patience time.Duration // latest time for Silent, however slow the node was before
	Memory   time.Duration // a slow answer is remembered once to twice this long
	Retry    time.Duration // between two dials of a node that is suspected
	Stall    time.Duration // after such a gap between two ticks the watcher does not trust what it saw
}

// DefaultBeats returns the intervals with which a node that answered promptly is reported silent
// 0.6 s after its last answer.
func DefaultBeats() Beats {
	return Beats{Every: 250 * time.Millisecond, Silence: 600 * time.Millisecond, First: time.Second,
		Patience: 3 * time.Second, Memory: 2 * time.Minute, Retry: time.Second, Stall: time.Second}
}

// gaps keeps the longest time between two answers of a node, in this period and in the one before.
// So a node that was slow once gets more time for a while.
type gaps struct {
	began           time.Time // start of this period
	longest, before time.Duration
}

// note records a gap between two answers, of which the later came at now.
func (g *gaps) note(gap time.Duration, now time.Time, b Beats) {
	if age := now.Sub(g.began); age >= b.Memory {
		g.began, g.before, g.longest = now, g.longest, 0
		if age >= 2*b.Memory {
			g.before = 0
		}
	}
	g.longest = max(g.longest, gap)
}

// limit is the silence after which a node is suspected: one and a half times the longest recent
// gap, at least b.Silence and at most b.Patience. For a node that has not answered yet, the minimum
// is b.First (see firstAnswer).
func (n *watched) limit(b Beats) time.Duration {
	least := b.Silence
	if !n.heard {
		least = b.First
	}
	worst := max(n.gaps.longest, n.gaps.before)
	return min(max(worst+worst/2, least), b.Patience)
}

// doubt is the silence after which a node is dialled anew. It is longer than the wait for the
// answer to one beat.
func (n *watched) doubt(b Beats) time.Duration { return max(n.limit(b)/2, b.Every+b.Every/2) }

// wait is how long a dial may take before it counts as unanswered.
func (n *watched) wait(b Beats) time.Duration { return n.limit(b) / 6 }

// due is when the node will be suspected if it does not answer; zero: not known yet.
func (n *watched) due(b Beats) time.Time {
	if n.sign != "" && !n.void || n.phase != dialling && !n.missed {
		return time.Time{}
	}
	at := n.last.Add(n.limit(b))
	if answer := n.began.Add(n.wait(b)); !n.missed && answer.After(at) {
		return answer
	}
	return at
}

// firstAnswer is the minimum time that a node gets for its first answer. Once another node has
// answered for b.Patience, it is as long as the slowest of those nodes needs, at most b.First.
// Before that, all nodes may be starting, and it is b.First.
func firstAnswer(others []*contact, now time.Time, b Beats) time.Duration {
	var slowest time.Duration
	for _, c := range others {
		if c.heard && now.Sub(c.met) >= b.Patience {
			slowest = max(slowest, c.limit(b), c.took+c.took/2)
		}
	}
	if slowest == 0 {
		return b.First
	}
	return min(slowest, b.First)
}
