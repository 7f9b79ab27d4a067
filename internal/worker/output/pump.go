package output

import (
	"bytes"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	tailBytes   = 16 << 10
	longestPart = 64 << 10 // of a line that is not shown yet
	// pipeBytes is the size of a worker's pipe, which buffers the output while the disk is slow. At
	// 1 GB a minute from eight workers it buffers half a second.
	pipeBytes = 1 << 20
	// settleLimit is how long the report of an exit waits until the last output is in the log.
	settleLimit = time.Second
)

// Pump moves the output of a worker from a pipe into a log, and shows it on the console.
type Pump struct {
	Of      Std // the streams in the pipe
	Log     *logFile
	Console *console // nil: not shown
	copies  *duplicate

	Read   *os.File // nil until open
	conn   syscall.RawConn
	Staged *os.File      // read end of the stage, whose bytes go into the log next
	stage  *os.File      // write end of the stage
	done   chan struct{} // nil until start

	mu   sync.Mutex // held while bytes are moved, so that their order is kept
	tail []byte     // the last bytes
	part []byte     // the start of a line that is not shown yet

	shared  bool   // the console also shows other workers: only whole lines are written
	prefix  string // before each line there
	midLine bool   // the text shown last did not end with a newline

	label  string // before each copied line
	copied lines
}

// Open makes the pipes, and returns the end that the worker writes to.
func (p *Pump) Open() (*os.File, error) {
	read, write, err := pipe(pipeBytes)
	if err != nil {
		return nil, err
	}
	if p.Staged, p.stage, err = pipe(Chunk); err == nil {
		p.conn, err = read.SyscallConn()
	}
	if err != nil {
		read.Close()
		write.Close()
		p.closeStage()
		return nil, err
	}
	p.Read = read
	return write, nil
}

// pipe makes a pipe of size bytes, or of the largest size this user may have. The read end is
// non-blocking. The write end blocks, as a worker expects.
func pipe(size int) (read, write *os.File, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	for ; size >= Chunk; size /= 2 {
		if _, err := unix.FcntlInt(uintptr(fd[0]), unix.F_SETPIPE_SZ, size); err == nil {
			break
		}
	}
	unix.SetNonblock(fd[0], true)
	return os.NewFile(uintptr(fd[0]), "output of a worker"), os.NewFile(uintptr(fd[1]), "output"), nil
}

// closeStage closes both ends of the stage, if there is one.
func (p *Pump) closeStage() {
	if p.Staged != nil {
		p.Staged.Close()
		p.stage.Close()
	}
}

// Start starts the pump.
func (p *Pump) Start() {
	p.done = make(chan struct{})
	go p.run()
}

// run moves bytes until the pipe ends, or until Finish.
func (p *Pump) run() {
	defer close(p.done)
	defer p.closeStage()
	defer p.Read.Close()
	defer p.flush()
	for {
		var n int
		var err error
		stopped := p.conn.Read(func(fd uintptr) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			n, err = p.move(int(fd))
			return err != syscall.EAGAIN
		})
		switch {
		case stopped != nil: // by Finish: other processes may still have the pipe open
			p.conn.Control(p.rest)
			return
		case err != nil || n == 0:
			return
		}
	}
}

// move moves one piece into the log, and returns its size, 0 at the end of the pipe. EAGAIN means
// that the pipe is empty. p.mu is held. The piece passes through the stage, which is empty before
// and after. Without it the worker would wait for the disk: the kernel locks a pipe while it writes
// from it to a file.
func (p *Pump) move(fd int) (n int, err error) {
	staged, err := splice(fd, int(p.stage.Fd()), nil)
	for err == nil && n < staged {
		var moved int
		moved, err = p.record()
		n += moved
	}
	return n, err
}

// record moves the content of the stage into the log, and shows it. p.mu is held.
func (p *Pump) record() (int, error) {
	want := tailBytes
	if p.Console != nil || p.copies != nil {
		want = Chunk
	}
	n, last, err := p.Log.take(int(p.Staged.Fd()), want)
	if err != nil {
		return 0, err
	}
	p.tail = append(p.tail, last[max(0, len(last)-tailBytes):]...)
	p.tail = append(p.tail[:0], p.tail[max(0, len(p.tail)-tailBytes):]...)
	p.show(last)
	if p.copies != nil {
		p.copied.add(last, p.copyLine)
	}
	return n, nil
}

// Name sets the label for copied lines.
func (p *Pump) Name(label string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.label = label
}

// copyLine writes a line to the copy. p.mu is held.
func (p *Pump) copyLine(line []byte) { p.copies.take(p.label, line) }

// Share tells the pump that the console also shows other workers. It then writes only whole lines,
// each with prefix. A carriage return ends a line too.
func (p *Pump) Share(prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared, p.prefix = true, prefix
}

// show writes b to the console. p.mu is held.
func (p *Pump) show(b []byte) {
	switch {
	case p.Console == nil:
		return
	case p.shared:
		b = append(p.part, b...)
		p.part = nil
		if cut := bytes.LastIndexAny(b, "\r\n") + 1; len(b)-cut < longestPart {
			b, p.part = b[:cut:cut], b[cut:]
		}
		b = p.withPrefix(b)
	}
	if len(b) > 0 {
		p.Console.show(b)
	}
}

// flush shows the rest of an unfinished line.
func (p *Pump) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.copies != nil {
		p.copied.end(p.copyLine)
	}
	if p.Console == nil || len(p.part) == 0 {
		return
	}
	if p.prefix != "" {
		p.part = append(p.part, '\n')
	}
	p.Console.show(p.withPrefix(p.part))
	p.part = nil
}

// withPrefix returns b with the prefix before each line.
func (p *Pump) withPrefix(b []byte) []byte {
	if p.prefix == "" {
		return b
	}
	var out []byte
	for len(b) > 0 {
		end := bytes.IndexAny(b, "\r\n") + 1
		switch {
		case end == 0:
			end = len(b)
		case b[end-1] == '\r' && end < len(b) && b[end] == '\n':
			end++
		}
		if !p.midLine {
			out = append(out, p.prefix...)
		}
		out = append(out, b[:end]...)
		p.midLine = b[end-1] != '\n' && b[end-1] != '\r'
		b = b[end:]
	}
	return out
}

// rest moves the bytes that are in the pipe now. Other processes may write to it forever.
func (p *Pump) rest(fd uintptr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	for err == nil && left > 0 {
		var n int
		if n, err = p.move(int(fd)); n == 0 {
			return
		}
		left -= n
	}
}

// Settle moves the last output of a worker that has ended, and returns the end of it; nil if the log
// takes too long.
func (p *Pump) Settle() []byte {
	tail := make(chan []byte, 1)
	go func() {
		p.conn.Control(p.rest)
		p.mu.Lock()
		defer p.mu.Unlock()
		tail <- bytes.Clone(p.tail)
	}()
	select {
	case b := <-tail:
		return b
	case <-time.After(settleLimit):
		return nil
	}
}

// Finish ends a pump. Its writers have ended, or are processes of other programs.
func (p *Pump) Finish() {
	switch {
	case p.done != nil:
		p.Read.SetReadDeadline(time.Now())
		<-p.done
	case p.Read != nil: // it was never started
		p.Read.Close()
		p.closeStage()
	}
}
