package membership

import "time"

// kind is the kind of an event.
type kind int

const (
	begun    kind = iota // watching begins
	ticked               // a tick of the watcher's clock
	expired              // silence may be a sign by now; between two ticks
	answered             // the node answered over the line
	ended                // the line broke, or its dial failed
	starved              // a tick came late
	stalled              // a tick came so late that earlier observations do not count
)

// event is what happened to a watched node, or to its watcher.
type event struct {
	kind   kind
	answer Answer        // of answered and ended
	late   time.Duration // of starved: how late the tick was
}

// orders are what follows from an event.
type orders struct {
	open    bool // dial anew
	beat    bool // send a beat on each line
	signals []Signal
}

// phase is the state of the connection to a watched node.
type phase int

const (
	down phase = iota
	dialling
	up
)

// watched is the state of watching one node. Only observe changes it; observe returns orders and
// carries none out.
type watched struct {
	ref    Ref
	phase  phase
	began  time.Time     // when the newest dial began
	broke  time.Time     // when the last established line broke
	next   time.Time     // while down: time of the next dial
	last   time.Time     // time of the last answer, or of the start of counting
	heard  bool          // the node has answered
	met    time.Time     // when it answered first
	took   time.Duration // how long its first answer took
	gaps   gaps          // between its answers
	missed bool          // a dial that began at last or later has no answer
	sign   Sign          // the newest sign that it may be gone
	why    Answer        // answer to the dial that is the reason of the sign
	void   bool          // the sign is from before a stall: not held, and not withdrawn yet
}

// observe applies an event, and returns what follows from it.
func (n *watched) observe(e event, now time.Time, b Beats) (o orders) {
	dial := func() { n.phase, n.began, o.open = dialling, now, true }
	switch e.kind {
	case begun:
		n.last = now
		dial()
	case starved:
		n.last = earlier(n.last.Add(e.late), now)
	case stalled:
		n.last, n.missed, n.void = now, false, n.sign != ""
	case answered:
		if n.heard {
			n.gaps.note(now.Sub(n.last), now, b)
		} else {
			n.met, n.took = now, now.Sub(n.last)
		}
		n.phase, n.last, n.heard, n.missed = up, now, true, false
		if n.sign != "" {
			n.sign, n.void = "", false
			o.signals = append(o.signals, Signal{Ref: n.ref, Answer: e.answer})
		}
	case ended:
		wasUp := n.phase == up
		n.phase, n.next = down, now
		switch {
		case wasUp:
			// One reset is ignored if the node answers the next dial. A node that resets every
			// connection must not cause a busy loop.
			if now.Sub(n.broke) >= b.Every {
				dial()
			}
			n.broke = now
		case e.answer.Kind != NoAnswer:
			n.next = now.Add(b.Retry)
			o.signals = n.suspect(ConnectionClosed, e.answer, now)
		default:
			n.missed = true
			if o.signals = n.silence(now, b); n.sign != "" {
				n.next = now.Add(b.Retry)
			}
		}
	case ticked:
		n.missed = n.missed || n.phase == dialling && now.Sub(n.began) >= n.wait(b)
		if n.phase == up && now.Sub(n.last) >= n.doubt(b) || n.phase == down && !now.Before(n.next) {
			dial()
		}
		o.beat = n.phase != down
		o.signals = n.silence(now, b)
	case expired:
		n.missed = n.missed || n.phase == dialling && now.Sub(n.began) >= n.wait(b)
		o.signals = n.silence(now, b)
	}
	return o
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// silence returns the signal that the node is silent, if it has been for its limit.
func (n *watched) silence(now time.Time, b Beats) []Signal {
	if !n.missed || now.Sub(n.last) < n.limit(b) {
		return nil
	}
	return n.suspect(Silent, Answer{}, now)
}

// suspect returns the signal of a new sign. A refused dial remains the sign if the node is silent
// later. Silence becomes a refused dial if a later dial is refused.
func (n *watched) suspect(s Sign, a Answer, now time.Time) []Signal {
	if !n.void && (n.sign == s || n.sign == ConnectionClosed) {
		return nil
	}
	n.sign, n.why, n.void = s, a, false
	return n.held(now)
}

// held returns the signal of the sign, if it is held.
func (n *watched) held(now time.Time) []Signal {
	if n.sign == "" || n.void {
		return nil
	}
	return []Signal{{Ref: n.ref, Sign: n.sign, Answer: n.why, Silent: now.Sub(n.last), Never: !n.heard}}
}
