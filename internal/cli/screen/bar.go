package screen

import (
	"io"
	"sync"
)

// Bar is a line at the bottom of a terminal that changes in place. What else is written there, by
// the writers of Over, appears above it. One goroutine draws, so that Set never waits for a
// terminal that is stopped.
type Bar struct {
	terminal io.Writer
	news     chan struct{}
	stop     chan struct{} // closed by Close
	done     chan struct{} // closed when nothing is drawn any more

	next   sync.Mutex
	wanted string // guarded by next; "": no bar

	mu     sync.Mutex // held while the terminal is written to; guards what follows
	shown  bool
	inLine bool // the newest text above did not end its line: nothing is drawn into it
	closed bool
}

// eraseLine goes to the beginning of the line and clears it.
const eraseLine = "\r\x1b[K"

// NewBar is a bar without a text, on a terminal.
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

// draw shows the newest text, where nothing is in the line. mu is held.
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
		_, _ = io.WriteString(b.terminal, eraseLine) // a terminal that is gone shows no bar
		b.shown = false
	}
}

// Over writes to w, which is the same terminal, above the bar.
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
