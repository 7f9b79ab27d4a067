package membership

import "time"

// Beats are the times of a Watcher.
type Beats struct {
	Every    time.Duration // between two beats
	Silence  time.Duration // without any answer, and a new dial had none either: Silent, at the earliest
	First    time.Duration // the same of a node that never answered, at most
	Patience time.Duration // the same at the latest, however long its answers took before
	Memory   time.Duration // for so long, and at most twice as long, a slow answer is remembered
	Retry    time.Duration // between two dials of a node that is known to be gone
	Stall    time.Duration // gap between two own ticks past which the watcher distrusts itself
}

// DefaultBeats signal the silence of a node that answered promptly so far 0.6 s after its last
// answer.
func DefaultBeats() Beats {
	return Beats{Every: 250 * time.Millisecond, Silence: 600 * time.Millisecond, First: time.Second,
		Patience: 3 * time.Second, Memory: 2 * time.Minute, Retry: time.Second, Stall: time.Second}
}

// gaps remembers the longest time between two answers of a node, in this period and in the one
// before: a node that was slow once is given more time for a while.
type gaps struct {
	began           time.Time // of this period
	longest, before time.Duration
}

// note takes in that gap passed between two answers, the later of them at now.
func (g *gaps) note(gap time.Duration, now time.Time, b Beats) {
	if age := now.Sub(g.began); age >= b.Memory {
		g.began, g.before, g.longest = now, g.longest, 0
		if age >= 2*b.Memory {
			g.before = 0
		}
	}
	g.longest = max(g.longest, gap)
}

// limit is how long silence may last before it is a sign: half as long again as the longest gap
// that is remembered, at least b.Silence and at most b.Patience. Of a node that has not answered
// yet nothing is known, and b.First is the least (see firstAnswer).
func (n *watched) limit(b Beats) time.Duration {
	least := b.Silence
	if !n.heard {
		least = b.First
	}
	worst := max(n.gaps.longest, n.gaps.before)
	return min(max(worst+worst/2, least), b.Patience)
}

// doubt is the silence after which a node is dialled anew: what a tick finds then is that a beat
// had no answer until the next one, and more.
func (n *watched) doubt(b Beats) time.Duration { return max(n.limit(b)/2, b.Every+b.Every/2) }

// wait is how long a dial may take before it counts as one without an answer.
func (n *watched) wait(b Beats) time.Duration { return n.limit(b) / 6 }

// due is when silence becomes a sign if nothing answers until then; zero: at no time that is known
// yet.
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

// firstAnswer is how long a node may take to answer for the first time, at least: as long as the
// slowest of the others, where one of them has answered for b.Patience. Before that all may begin at
// once, and it is b.First.
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
