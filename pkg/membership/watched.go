package membership

import "time"

type kind int

const (
	begun    kind = iota // watching begins
	ticked               // one beat of the own clock
	expired              // silence may be a sign by now; between two ticks
	answered             // the node answered over the line
	ended                // the line broke, or its dial failed
	starved              // a tick of the own clock came late
	stalled              // so late that nothing counts
)

type event struct {
	kind   kind
	answer Answer
	late   time.Duration
}

// orders are what follows from an event.
type orders struct {
	open    bool // dial anew
	beat    bool // over each line there is
	signals []Signal
}

type phase int

const (
	down phase = iota
	dialling
	up
)

// watched is all that is counted about one node. observe alone changes it; it decides and does
// nothing.
type watched struct {
	ref    Ref
	phase  phase
	began  time.Time     // when the newest dial began
	broke  time.Time     // when a line that was up broke last
	next   time.Time     // down: no dial before
	last   time.Time     // last answer, or when counting began (anew)
	heard  bool          // it has answered
	met    time.Time     // when it answered first
	took   time.Duration // its first answer
	gaps   gaps          // between its answers
	missed bool          // a dial that began at last or later has no answer
	sign   Sign          // the newest sign that it may be gone
	why    Answer        // of the dial that it is held for
	void   bool          // the sign is from before a stall: held no more, not taken back yet
}

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
			// A mere reset is no news if it answers the next dial; one that resets all the time
			// must not make us spin.
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

func (n *watched) silence(now time.Time, b Beats) []Signal {
	if !n.missed || now.Sub(n.last) < n.limit(b) {
		return nil
	}
	return n.suspect(Silent, Answer{}, now)
}

// suspect signals a new finding. A refused dial stays one when nothing answers any more; silence
// becomes a refused dial when a dial is refused at last.
func (n *watched) suspect(s Sign, a Answer, now time.Time) []Signal {
	if !n.void && (n.sign == s || n.sign == ConnectionClosed) {
		return nil
	}
	n.sign, n.why, n.void = s, a, false
	return n.held(now)
}

// held signals what is held.
func (n *watched) held(now time.Time) []Signal {
	if n.sign == "" || n.void {
		return nil
	}
	return []Signal{{Ref: n.ref, Sign: n.sign, Answer: n.why, Silent: now.Sub(n.last), Never: !n.heard}}
}
