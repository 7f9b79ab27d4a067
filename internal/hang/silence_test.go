package hang

import (
	"maps"
	"testing"
	"time"
)

func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	sockets := map[uint32]int64{7: 1 << 20}
	before := Pulse{CPU: time.Hour, IO: 1 << 30, Output: 1000, Sockets: sockets}
	with := func(change func(*Pulse)) Pulse {
		now := before
		now.Sockets = maps.Clone(sockets)
		change(&now)
		return now
	}
	for name, test := range map[string]struct {
		change func(*Pulse)
		want   bool
	}{
		"nothing":                          {func(*Pulse) {}, false},
		"a line of output":                 {func(p *Pulse) { p.Output++ }, true},
		"a log that was rotated":           {func(p *Pulse) { p.Output = 0 }, true},
		"an evaluation":                    {func(p *Pulse) { p.CPU += time.Second }, true},
		"a thread that looks now and then": {func(p *Pulse) { p.CPU += 20 * time.Millisecond }, false},
		"a save":                           {func(p *Pulse) { p.IO += 1 << 20 }, true},
		"a heartbeat of a few bytes":       {func(p *Pulse) { p.IO += 500; p.Sockets[7] += 500 }, false},
		"a download":                       {func(p *Pulse) { p.Sockets[7] += 1 << 17 }, true},
		"a new download":                   {func(p *Pulse) { p.Sockets[8] = 1 << 17 }, true},
		"a connection that was closed":     {func(p *Pulse) { delete(p.Sockets, 7) }, false},
		"a helper that ended":              {func(p *Pulse) { p.CPU, p.IO = 0, 0 }, false},
	} {
		if got := Alive(before, with(test.change), time.Second); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// measured is the silence after the same look was taken for each of the seconds in which it was
// due.
func measured(seconds int, pulse func(second int) Pulse) time.Duration {
	var s Silence
	start := time.Now()
	for i := range seconds + 1 {
		quiet := Pulse{Output: 1}
		at := start.Add(time.Duration(i) * time.Second)
		s.Observe(Look{At: at, Pulses: []Pulse{quiet, pulse(i)}}, time.Second)
	}
	return s.Total()
}

func TestSilence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pulse func(second int) Pulse
		want  time.Duration
	}{
		"all are silent": {func(int) Pulse { return Pulse{} }, 100 * time.Second},
		"one writes a line, once": {func(i int) Pulse {
			if i < 60 {
				return Pulse{}
			}
			return Pulse{Output: 1}
		}, 40 * time.Second},
		"one never gets a processor": {func(int) Pulse {
			return Pulse{Threads: map[int]Thread{5: {Runnable: true}, 6: {}}}
		}, 0},
		"one gets too little of a processor": {func(i int) Pulse {
			return Pulse{Threads: map[int]Thread{5: {Runnable: true, Slices: uint64(i),
				Waited: time.Duration(i) * 990 * time.Millisecond}}}
		}, time.Second},
		"one looks now and then on a busy machine": {func(i int) Pulse {
			return Pulse{Threads: map[int]Thread{5: {Slices: uint64(i),
				Waited: time.Duration(i) * 100 * time.Millisecond}}}
		}, 90 * time.Second},
	} {
		if got := measured(100, test.pulse); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// A node that was frozen, or had no time to look, does not take that for the silence of its
// workers.
func TestSilenceOfANodeThatDidNotLook(t *testing.T) {
	t.Parallel()
	var s Silence
	start := time.Now()
	s.Observe(Look{At: start, Pulses: make([]Pulse, 1)}, time.Second)
	s.Observe(Look{At: start.Add(time.Hour), Pulses: make([]Pulse, 1)}, time.Second)
	if s.Total() != 2*time.Second {
		t.Errorf("%s", s.Total())
	}
}

// A worker that waits for a disk is alive while disks move, and hangs when they do not.
func TestSilenceInAnFsync(t *testing.T) {
	t.Parallel()
	for disk, want := range map[int64]time.Duration{0: 10 * time.Second, 1 << 20: 0} {
		var s Silence
		start := time.Now()
		for i := range 11 {
			s.Observe(Look{At: start.Add(time.Duration(i) * time.Second), Pulses: []Pulse{{Held: true}},
				Disk: int64(i) * disk}, time.Second)
		}
		if s.Total() != want {
			t.Errorf("disks move %d bytes a second: %s, want %s", disk, s.Total(), want)
		}
	}
}

// Work is what a processor, a connection or a disk shows, also of a process below the worker.
func TestWorking(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		now  Pulse
		disk int64
		want bool
	}{
		"waits for a processor":      {now: Pulse{Threads: map[int]Thread{5: {Runnable: true}}}, want: true},
		"wakes up once":              {now: Pulse{Threads: map[int]Thread{6: {Runnable: true}}}},
		"stands still":               {},
		"other threads wake up":      {now: Pulse{CPU: 20 * time.Millisecond, IO: 100}},
		"computes":                   {now: Pulse{CPU: 300 * time.Millisecond}, want: true},
		"saves":                      {now: Pulse{IO: 1 << 20}, want: true},
		"receives":                   {now: Pulse{Sockets: map[uint32]int64{7: 1 << 20}}, want: true},
		"waits for a disk":           {now: Pulse{Held: true}, disk: 1 << 20, want: true},
		"waits for a disk that died": {now: Pulse{Held: true}},
		"others use the disk":        {disk: 1 << 20},
	} {
		start := time.Now()
		before := Look{At: start, Pulses: []Pulse{{Held: test.now.Held,
			Threads: map[int]Thread{5: {Runnable: true}, 6: {}}}}}
		now := Look{At: start.Add(time.Second), Pulses: []Pulse{test.now}, Disk: test.disk}
		if got := Working(before, now, 0); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if Working(Look{}, Look{Pulses: []Pulse{{}}}, 0) {
		t.Error("a worker that was not seen before works")
	}
}
