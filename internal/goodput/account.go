package goodput

import (
	"time"

	"github.com/elasticd/elastic/pkg/history"
)

// account is the state after some of the events. At each time one bucket is active.
type account struct {
	seconds map[Bucket]float64 // without the time in which workers ran
	lives   []life
	in      Bucket
	since   time.Time
	short   bool  // the job saves while nodes are missing: the time after the save is Waiting
	running *life // nil: no workers run
	ended   bool  // the newest attempt has ended
}

// life is a generation, with the facts that decide which of its steps count.
type life struct {
	Generation
	began     time.Time
	stopped   time.Time // when its workers were asked to stop, or a worker failed
	committed time.Time // time of its newest commit; zero: none
	hang      bool      // it ended because its workers hung
	last      *LastProgress
	redone    bool    // the next generation repeated the steps that were not committed
	resumed   bool    // the next generation started from a checkpoint
	broken    float64 // seconds of its last, unfinished step, which the next one repeated
}

func (a *account) take(e history.Event) {
	if a.ended && (e.Kind == history.NodeJoined || e.Kind == history.WorldProposed) {
		a.ended, a.since = false, e.Time // another attempt has started
	}
	switch e.Kind {
	case history.JobCreated:
		a.since = e.Time
	case history.NodeLost:
		a.lost(e)
	case history.WorkerFailed:
		if history.Field[bool](&e, "hang") && a.running != nil {
			a.running.hang = true
		}
	case history.Committed:
		a.recordCommit(e)
	case history.WaitEntered:
		a.switchTo(bucketOf(history.Field[string](&e, "why_code")), e.Time)
		present, np := history.Field[*int64](&e, "present"), history.Field[*int64](&e, "np")
		a.short = a.in == Saving && present != nil && np != nil && *present < *np
	case history.WorldProposed:
		a.proposed(e)
	case history.WorldRunning:
		if n := len(a.lives); n > 0 {
			a.switchTo(Kept, e.Time)
			a.running = &a.lives[n-1]
			a.running.began, a.running.stopped = e.Time, e.Time
		}
	case history.Started:
		a.fromMemory(e)
	case history.JobDone, history.JobFailed, history.JobStopped:
		a.endLife(e.Time, history.Field[*int64](&e, "last_step"), lastProgress(e))
		a.recordUnsaved(e)
		a.switchTo(Waiting, e.Time)
		a.ended = true
	}
}

func (a *account) proposed(e history.Event) {
	a.endLife(e.Time, history.Field[*int64](&e, "last_step"), lastProgress(e))
	a.recordUnsaved(e)
	a.switchTo(Barrier, e.Time)
	from := history.Field[*int64](&e, "resume_step")
	if n := len(a.lives); n > 0 {
		l := &a.lives[n-1]
		l.redone, l.resumed = true, e.Fields["checkpoint"] != nil
		if steps := l.Steps(); from != nil && steps > 0 && *l.To > *from {
			l.Lost = min(*l.To-*from, steps)
		}
	}
	a.lives = append(a.lives, life{Generation: Generation{Generation: int64(e.Generation),
		WorldSize: history.Field[int64](&e, "world_size"), From: from}})
}

// recordUnsaved records what the last generation did not save before a planned change.
func (a *account) recordUnsaved(e history.Event) {
	if n := len(a.lives); n > 0 {
		a.lives[n-1].Unsaved = history.Field[string](&e, "unsaved")
	}
}

// fromMemory records that a generation continued with the state in memory. No step of the generation
// before was repeated.
func (a *account) fromMemory(e history.Event) {
	memory, _ := history.Field[map[string]any](&e, "waterfall")["from_memory"].(bool)
	n := len(a.lives)
	if !memory || n < 2 || a.lives[n-1].Generation.Generation != int64(e.Generation) {
		return
	}
	for i := n - 2; i >= 0; i-- {
		before := &a.lives[i]
		before.Lost, before.redone = 0, false
		if before.To != nil {
			a.lives[n-1].From = before.To
			return
		}
	}
}

// recordCommit records the newest commit of a generation. If nodes are missing, the bucket Saving ends.
func (a *account) recordCommit(e history.Event) {
	if a.short {
		a.short = false
		a.switchTo(Waiting, e.Time)
	}
	for i := range a.lives {
		if a.lives[i].Generation.Generation == int64(e.Generation) {
			a.lives[i].committed = e.Time
		}
	}
}

// switchTo adds the time since the last turn to the active bucket, and makes another bucket active.
func (a *account) switchTo(to Bucket, at time.Time) {
	passed := max(0, at.Sub(a.since).Seconds())
	if a.short { // there was nothing to save
		a.in, a.short = Waiting, false
	}
	switch {
	case a.ended: // the time between attempts does not count
	case a.in == Kept && a.running != nil:
		a.running.Seconds += passed
		a.running.stopped = at
	default:
		a.seconds[a.in] += passed
	}
	a.in, a.since = to, at
}

// endLife ends the running generation at its last step.
func (a *account) endLife(at time.Time, step *int64, last *LastProgress) {
	if a.running == nil {
		return
	}
	if a.in == Kept {
		a.switchTo(Barrier, at)
	}
	a.running.To, a.running.last, a.running = step, last, nil
	if last != nil && last.Before != nil {
		a.setBroken(*last.Before)
	}
}

// setBroken records when the last step of a generation ended. The next generation, which has its
// state, reports it.
func (a *account) setBroken(last time.Time) {
	for i := len(a.lives) - 2; i >= 0; i-- {
		if l := &a.lives[i]; !l.began.IsZero() && !last.Before(l.began) {
			l.broken = max(0, l.stopped.Sub(last).Seconds())
			return
		}
	}
}

// lost moves the time between the first sign of a loss and the decision from training to Detection.
func (a *account) lost(e history.Event) {
	after := history.Field[*float64](&e, "after_ms")
	if after == nil || a.in != Kept || a.running == nil {
		return
	}
	sign := e.Time.Add(-time.Duration(*after * float64(time.Millisecond)))
	if sign.Before(a.since) {
		sign = a.since
	}
	a.switchTo(Detection, sign)
}

// untold splits the time of a generation if the job reports no steps.
func (l *life) untold() map[Bucket]float64 {
	hung, again := l.hung(), l.uncommitted()
	return map[Bucket]float64{Hung: hung, Untold: l.Seconds - hung - again, Redone: again}
}

// split splits the time of a generation if the job reports its steps.
func (l *life) split() map[Bucket]float64 {
	hung := l.hung()
	trained := l.Seconds - hung
	part := map[Bucket]float64{Hung: hung}
	switch {
	case l.To == nil || l.From != nil && l.Steps() == 0:
		part[NoSteps] = trained
	default:
		part[NoSteps] = min(l.toFirst(), trained)
		trained -= part[NoSteps]
		broken := 0.0
		if hung == 0 {
			broken = min(l.broken, trained)
		}
		again := 0.0
		if steps := l.Steps(); steps > 0 {
			again = (trained - broken) * float64(l.Lost) / float64(steps)
		}
		part[Kept], part[Redone] = trained-broken-again, broken+again
	}
	return part
}

// place says when the time in vain began: a hang is at the end, and steps that were made again before it.
func (l *life) place(part map[Bucket]float64) {
	end := l.stopped
	if part[Hung] > 0 {
		end = end.Add(-seconds(part[Hung]))
		l.HungSince = end
	}
	if part[Redone] > 0 {
		l.RedoneSince = end.Add(-seconds(part[Redone]))
	}
}

// seconds rounds to milliseconds, as events have their times.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// toFirst returns the time until the first step ended; 0: unknown.
func (l *life) toFirst() float64 {
	if l.last == nil || l.last.First == nil {
		return 0
	}
	return max(0, l.last.First.Sub(l.began).Seconds())
}

// A generation counts as hung if a hang was found. It also counts as hung if its workers reported
// nothing for ten times the usual interval, and for at least half a minute, before they were
// stopped.
const (
	quietTimes = 10
	quietLeast = 30 * time.Second
)

// hung returns for how long the workers reported nothing.
func (l *life) hung() float64 {
	since, limit := l.began, time.Duration(0)
	if l.last != nil {
		since = l.last.At
	}
	if !l.hang {
		if l.last == nil {
			return 0 // it may report no progress at all
		}
		limit = max(quietLeast, quietTimes*l.last.Every)
	}
	quiet := l.stopped.Sub(since)
	if quiet <= limit {
		return 0
	}
	return min(quiet.Seconds(), l.Seconds)
}

// uncommitted returns the time since the newest commit, if the job reports no steps. The next
// generation repeated that time.
func (l *life) uncommitted() float64 {
	if !l.redone {
		return 0
	}
	since := l.committed
	if since.Before(l.began) || !l.resumed {
		since = l.began
	}
	trained := l.Seconds - l.hung()
	return min(max(0, l.stopped.Sub(since).Seconds()), trained)
}

func bucketOf(why string) Bucket {
	switch why {
	case "saving", "draining":
		return Saving
	case "backoff":
		return Backoff
	}
	return Waiting
}
