// Package hang measures for how long workers show no sign of life, and saves evidence of a job that
// hangs.
package hang

import (
	"time"
)

// What counts as a sign of life besides output and progress: a slow evaluation uses a processor, a
// long save writes, and a download receives.
const (
	busyShare = 20       // one core for a twentieth of the time
	busyBytes = 64 << 10 // bytes per second
	cpuTicks  = 2 * 10 * time.Millisecond
)

// Look is an observation of the workers of one node at one time.
type Look struct {
	At     time.Time
	Pulses []Pulse // by local rank
	Disk   int64   // bytes that the disks of the machine moved
}

// Silence measures for how long no worker of a node has shown a sign of life. It leaves out time in
// which a worker waited for a processor, and time in which the node did not look, because an
// overloaded machine does not hang. The zero value is ready for use.
type Silence struct {
	last  Look
	total time.Duration
}

// Observe adds the next look. period is the intended time between two looks.
func (s *Silence) Observe(now Look, period time.Duration) {
	before := s.last
	s.last = now
	if before.At.IsZero() || len(before.Pulses) != len(now.Pulses) {
		s.total = 0
		return
	}
	since := now.At.Sub(before.At)
	var starved time.Duration
	for i := range now.Pulses {
		if Alive(before.Pulses[i], now.Pulses[i], since) || waitsForDisk(before, now, i) {
			s.total = 0
			return
		}
		starved = max(starved, waited(before.Pulses[i], now.Pulses[i], since))
	}
	s.total += max(0, min(since, 2*period)-starved)
}

// Total returns the silence up to the last look.
func (s *Silence) Total() time.Duration { return s.total }

// Alive reports whether a worker showed a sign of life between two pulses.
func Alive(before, now Pulse, since time.Duration) bool {
	return now.Output != before.Output || now.CPU-before.CPU >= max(since/busyShare, cpuTicks) ||
		movesBytes(before, now, since)
}

// Working reports whether worker i or a process below it does something between two looks: it uses a
// processor, or would if the machine were not overloaded, or moves bytes. A check that takes long, a
// compiler, a download and a save show so.
func Working(before, now Look, i int) bool {
	if i >= min(len(before.Pulses), len(now.Pulses)) {
		return false
	}
	from, to, since := before.Pulses[i], now.Pulses[i], now.At.Sub(before.At)
	return (to.CPU-from.CPU).Seconds() >= busyRank*since.Seconds() || runs(from, to) ||
		movesBytes(from, to, since) || waitsForDisk(before, now, i)
}

// runs reports whether a thread had or waited for a processor at both pulses.
func runs(before, now Pulse) bool {
	for id, t := range now.Threads {
		if t.Runnable && before.Threads[id].Runnable {
			return true
		}
	}
	return false
}

// movesBytes reports whether a worker read, wrote, sent or received enough to be at work.
func movesBytes(before, now Pulse, since time.Duration) bool {
	enough := busyBytes * since.Seconds()
	return float64(now.IO-before.IO) >= enough || float64(transferred(before, now)) >= enough
}

// transferred returns how many bytes the connections of a worker moved. All bytes of a new one
// count.
func transferred(before, now Pulse) (bytes int64) {
	for inode, n := range now.Sockets {
		if was := before.Sockets[inode]; n >= was {
			bytes += n - was
		}
	}
	return bytes
}

// waitsForDisk reports whether a worker waits for a disk while the disks of the machine move bytes. A long
// fsync shows in no counter of the process.
func waitsForDisk(before, now Look, i int) bool {
	since := now.At.Sub(before.At)
	return before.Pulses[i].Held && now.Pulses[i].Held &&
		float64(now.Disk-before.Disk) >= busyBytes*since.Seconds()
}

// waited returns how long a thread waited for a processor, for the thread that waited longest.
func waited(before, now Pulse, since time.Duration) (most time.Duration) {
	for id, t := range now.Threads {
		was, known := before.Threads[id]
		switch {
		case !known:
		case t.Runnable && was.Runnable && t.Slices == was.Slices:
			return since // the kernel counts a wait only when it ends
		case t.Waited > was.Waited:
			most = max(most, t.Waited-was.Waited)
		}
	}
	return min(most, since)
}
