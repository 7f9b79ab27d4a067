package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Pulse is how much one worker, with all that it started, has done since it began. Only the difference of
// two of them says something.
type Pulse struct {
	CPU    time.Duration
	IO     int64 // bytes that were read and written, as far as the kernel counts them for a process
	Output int64 // bytes of its logs and of its progress file
}

// Pulses are those of all workers, by local rank.
func (g *Group) Pulses() []Pulse {
	all, err := processes()
	if err != nil {
		return nil
	}
	pulses := make([]Pulse, len(g.workers))
	for i, w := range g.workers {
		p := &pulses[i]
		for _, x := range below(all, func(x process) bool { return x.pid == w.PID && x.start == w.Start }) {
			p.CPU += x.cpu
			p.IO += ioOf(x.pid)
		}
		logs := g.spec.Logs
		for _, path := range []string{logs.Path(i), logs.ErrPath(i), filepath.Join(g.spec.RunDir, strconv.Itoa(i), "progress.jsonl")} {
			if info, err := os.Stat(path); err == nil {
				p.Output += info.Size()
			}
		}
	}
	return pulses
}

// Ending reports whether the workers were asked or told to end.
func (g *Group) Ending() bool { return g.ending.Load() }

// ioOf is what a process read and wrote; 0 where that cannot be told.
func ioOf(pid int) (bytes int64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "rchar", "wchar", "read_bytes", "write_bytes":
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			bytes += n
		}
	}
	return bytes
}
