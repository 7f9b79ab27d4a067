package screen

import (
	"io"
	"sync"
)

// Bar is a line at the bottom of a terminal that changes in place. Text that is written to the
// terminal with Over appears above it. One goroutine draws the line, so Set never waits for a
// stopped terminal.
type Bar struct {
	terminal io.Writer
	news     chan struct{}
	stop     chan struct{} // closed by Close
	done     chan struct{} // closed when the drawing has ended

	next   sync.Mutex
	wanted string // guarded by next; "": no bar

	mu     sync.Mutex // held while the terminal is written to; guards what follows
	shown  bool
	inLine bool // the text above has an unfinished line: the bar is not drawn
	closed bool
}

// eraseLine moves to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

// NewBar returns a bar without text on a terminal.
func NewBar(terminal io.Writer) *Bar {
	b := &Bar{terminal: terminal, news: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{})}
	go b.run()
	return b
}

// Set shows text, which must fit into one line; "" shows nothing. It never waits.
func (b *Bar) Set(text string) {
	b.next.Lock()
	b.wanted = text
	b.next.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// Close removes the bar.
func (b *Bar) Close() {
	close(b.stop)
	<-b.done
}

func (b *Bar) run() {
	defer close(b.done)
	for {
		select {
		case <-b.news:
			b.locked(func() { b.draw() })
		case <-b.stop:
			b.locked(func() { b.erase(); b.closed = true })
			return
		}
	}
}

func (b *Bar) locked(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *Bar) text() string {
	b.next.Lock()
	defer b.next.Unlock()
	return b.wanted
}

// draw shows the newest text, unless the line is in use. mu is held.
func (b *Bar) draw() {
	text := b.text()
	if b.closed || b.inLine {
		return
	}
	if text == "" {
		b.erase()
		return
	}
	_, err := io.WriteString(b.terminal, eraseLine+text)
	b.shown = err == nil
}

// erase clears the line, if the bar is in it. mu is held.
func (b *Bar) erase() {
	if b.shown {
		_, _ = io.WriteString(b.terminal, eraseLine) // after an error the terminal shows no bar
		b.shown = false
	}
}

// Over returns a writer that writes to w above the bar. w is the same terminal.
func (b *Bar) Over(w io.Writer) io.Writer { return &over{b, w} }

type over struct {
	bar *Bar
	w   io.Writer
}

func (o *over) Write(p []byte) (n int, err error) {
	o.bar.locked(func() {
		o.bar.erase()
		n, err = o.w.Write(p)
		if len(p) > 0 {
			o.bar.inLine = p[len(p)-1] != '\n'
		}
		o.bar.draw()
	})
	return n, err
}
