package run

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// The width of the bar is within these limits.
const (
	leastBar = 6
	mostBar  = 24
)

// showProgress shows the newest progress on the last line of the terminal, until stop is called. It
// does nothing if stderr is no terminal, or if a worker has the terminal.
func showProgress(c *command.Call, o *node.Options, stderr *words) (stop func()) {
	if !screen.IsTerminal(c.Stderr) || c.Out.Quiet || c.Getenv("TERM") == "dumb" || o.Launcher.TTY != nil {
		return func() {}
	}
	bar := screen.NewBar(c.Stderr)
	stderr.out = bar.Over(c.Stderr)
	if screen.IsTerminal(c.Stdout) {
		o.Stdout = bar.Over(o.Stdout)
	}
	o.Progress = func(p rendezvous.Progress) { bar.Set(progressLine(p, columns(c.Stderr))) }
	return bar.Close
}

// columns returns the width of a terminal, or 80 if it is unknown.
func columns(terminal io.Writer) int {
	if n := screen.Columns(terminal); n > 0 {
		return n
	}
	return 80
}

// progressLine formats the progress as one line shorter than columns, "" if none is known. A narrow
// terminal drops the bar first, then the figures from the right.
func progressLine(p rendezvous.Progress, columns int) string {
	var parts []string
	if p.Step != nil {
		parts = append(parts, fmt.Sprintf("step %d", *p.Step))
	}
	if p.Loss != nil {
		parts = append(parts, "loss "+strconv.FormatFloat(*p.Loss, 'g', 4, 64))
	}
	if p.Left != nil {
		parts = append(parts, screen.ShortTime(time.Duration(*p.Left))+" left")
	}
	if p.SamplesPerSecond != nil {
		parts = append(parts, strconv.FormatFloat(*p.SamplesPerSecond, 'f', 0, 64)+" samples/s")
	}
	if p.Done != nil {
		parts = append([]string{fmt.Sprintf("%3d%%", int(100*share(p)))}, parts...)
	}
	line := strings.Join(parts, "  ")
	for len(line) >= columns && len(parts) > 0 {
		parts = parts[:len(parts)-1]
		line = strings.Join(parts, "  ")
	}
	if places := min(columns-1-len(line)-len("[]  "), mostBar); p.Done != nil && line != "" &&
		places >= leastBar {
		full := int(share(p) * float64(places))
		line = "[" + strings.Repeat("#", full) + strings.Repeat("-", places-full) + "]  " + line
	}
	return line
}

func share(p rendezvous.Progress) float64 { return min(max(*p.Done, 0), 1) }
