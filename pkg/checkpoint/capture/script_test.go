package capture

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
)

// call is one system call of a worker that saves.
type call struct {
	Op       string
	Name, To string // below the checkpoint directory
	Data     []byte
	At       int // offset of the bytes in a memory map
}

// script is the save of one step, as system calls in their order.
type script struct {
	t     *testing.T
	step  int
	calls []call
	files map[string]string // what they contain then, by path
}

// content is what a file of a step consists of. Each kind of file has its format.
func (s *script) content(name string) []byte {
	text := fmt.Sprintf("step %06d", s.step)
	switch {
	case filepath.Base(name) == staticFile:
		return []byte("{}\n")
	case filepath.Base(name) == "trainer_state.json":
		return []byte(fmt.Sprintf(`{"global_step": %d}`, s.step))
	case filepath.Base(name) == ".metadata":
		return []byte("\x80\x02X\x0b\x00\x00\x00" + text + ".")
	case filepath.Ext(name) == ".pt", filepath.Ext(name) == ".ckpt":
		return checkpointtest.Zip(s.t, map[string]string{"w": text})
	}
	return []byte(strings.Repeat("\x00"+text, 64))
}

// staticFile has the same bytes in each save.
const staticFile = "config.json"

func (s *script) do(c call) { s.calls = append(s.calls, c) }

func (s *script) rename(from, to string) { s.do(call{Op: "rename", Name: from, To: to}) }

// write writes a file in two writes.
func (s *script) write(name string) { s.writes(name, "create") }

func (s *script) writes(name, open string) {
	data := s.content(name)
	s.do(call{Op: "mkdir", Name: filepath.Dir(name)})
	s.do(call{Op: open, Name: name})
	s.do(call{Op: "write", Name: name, Data: data[:len(data)/2]})
	s.do(call{Op: "write", Name: name, Data: data[len(data)/2:]})
	s.do(call{Op: "close", Name: name})
}

// synced writes a temporary file, syncs it, and gives it its name.
func (s *script) synced(name string) {
	temp := name + ".tmp"
	data := s.content(name)
	s.do(call{Op: "mkdir", Name: filepath.Dir(name)})
	s.do(call{Op: "create", Name: temp})
	s.do(call{Op: "write", Name: temp, Data: data})
	s.do(call{Op: "sync", Name: temp})
	s.do(call{Op: "close", Name: temp})
	s.rename(temp, name)
}

// mapped writes a file through a memory map.
func (s *script) mapped(name string) {
	data := s.content(name)
	s.do(call{Op: "mkdir", Name: filepath.Dir(name)})
	s.do(call{Op: "open", Name: name})
	s.do(call{Op: "truncate", Name: name, At: len(data)})
	s.do(call{Op: "map", Name: name, At: len(data)})
	s.do(call{Op: "close", Name: name})
	s.do(call{Op: "store", Name: name, Data: data[:len(data)/2]})
	s.do(call{Op: "store", Name: name, Data: data[len(data)/2:], At: len(data) / 2})
	s.do(call{Op: "unmap", Name: name})
}

// worker is the process that saves, and the directory that it saves into.
type worker interface {
	make(c call)
	kill()
	end()
	tick() // returns when the clock of the files moved on: two writes within its grain look like one
	read(path string) (string, error)
}

// writer is a process that makes the system calls that it is sent, one after the other.
type writer struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	in  io.WriteCloser
	to  *gob.Encoder
	out io.ReadCloser
}

const writerVariable = "ELASTIC_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerVariable); dir != "" {
		obey(dir)
		return
	}
	os.Exit(m.Run())
}

func startWriter(t *testing.T, dir string) *writer {
	t.Helper()
	w := &writer{t: t, dir: dir, cmd: exec.Command("/proc/self/exe")}
	w.cmd.Env = append(os.Environ(), writerVariable+"="+dir)
	w.cmd.Stderr = os.Stderr
	var err error
	w.in, err = w.cmd.StdinPipe()
	must(t, err)
	w.out, err = w.cmd.StdoutPipe()
	must(t, err)
	must(t, w.cmd.Start())
	w.to = gob.NewEncoder(w.in)
	t.Cleanup(w.kill)
	return w
}

// make returns when the call was made.
func (w *writer) make(c call) {
	w.t.Helper()
	must(w.t, w.to.Encode(c))
	if _, err := io.ReadFull(w.out, make([]byte, 1)); err != nil {
		w.t.Fatalf("%+v: %v", c, err)
	}
}

// kill ends the process with SIGKILL.
func (w *writer) kill() {
	if w.cmd.ProcessState == nil {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	}
}

// end ends the process by itself.
func (w *writer) end() {
	must(w.t, w.in.Close())
	must(w.t, w.cmd.Wait())
}

func (w *writer) tick() {
	probe := filepath.Join(w.t.TempDir(), "probe")
	must(w.t, os.WriteFile(probe, nil, 0o600))
	b := &bench{t: w.t}
	b.afterWrite(probe)
}

func (w *writer) read(path string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(w.dir, filepath.FromSlash(path)))
	return string(raw), err
}

// playedWorker is a worker of a played disk.
type playedWorker struct {
	t    *testing.T
	disk *playedDisk
}

func (w *playedWorker) make(c call) { must(w.t, w.disk.call(c)) }
func (w *playedWorker) kill()       { w.disk.kill() }
func (w *playedWorker) end()        { w.disk.kill() }
func (w *playedWorker) tick()       { w.disk.tick() }
func (w *playedWorker) read(path string) (string, error) {
	n, err := w.disk.there(path)
	if err != nil {
		return "", err
	}
	return string(n.of.data), nil
}

// obey is the writer process: it ends with its input.
func obey(dir string) {
	from := gob.NewDecoder(os.Stdin)
	open, maps := map[string]*os.File{}, map[string][]byte{}
	for {
		var c call
		if from.Decode(&c) != nil {
			return
		}
		if err := c.make(dir, open, maps); err != nil {
			fmt.Fprintf(os.Stderr, "%s %s: %v\n", c.Op, c.Name, err)
			return
		}
		fmt.Print(".")
	}
}

func (c call) make(dir string, open map[string]*os.File, maps map[string][]byte) (err error) {
	path, to, f := filepath.Join(dir, c.Name), filepath.Join(dir, c.To), open[c.Name]
	switch c.Op {
	case "mkdir":
		return os.MkdirAll(path, 0o755)
	case "create":
		open[c.Name], err = os.Create(path)
	case "open":
		open[c.Name], err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	case "write":
		_, err = f.Write(c.Data)
	case "sync":
		err = f.Sync()
	case "close":
		delete(open, c.Name)
		err = f.Close()
	case "rename":
		err = os.Rename(path, to)
	case "link":
		err = os.Link(path, to)
	case "remove":
		if err = os.Remove(path); os.IsNotExist(err) {
			err = nil
		}
	case "truncate":
		err = f.Truncate(int64(c.At))
	case "map":
		maps[c.Name], err = unix.Mmap(int(f.Fd()), 0, c.At, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	case "store":
		copy(maps[c.Name][c.At:], c.Data)
	case "unmap":
		m := maps[c.Name]
		delete(maps, c.Name)
		err = unix.Munmap(m)
	default:
		err = fmt.Errorf("no such call")
	}
	return err
}

// result is what the files of the save contain, by path.
func (s *script) result() map[string]string {
	files, at := map[string]string{}, map[string]int{}
	for _, c := range s.calls {
		switch c.Op {
		case "create", "open":
			at[c.Name] = 0
		case "write":
			is, end := files[c.Name], at[c.Name]+len(c.Data)
			files[c.Name] = is[:at[c.Name]] + string(c.Data) + is[min(len(is), end):]
			at[c.Name] = end
		case "store":
			files[c.Name] = files[c.Name][:c.At] + string(c.Data)
		case "rename":
			for name, content := range files {
				if rest, ok := cutPath(name, c.Name); ok {
					files[c.To+rest] = content
					delete(files, name)
				}
			}
		}
	}
	return files
}

// cutPath cuts a file or directory off the path of what is in it.
func cutPath(name, from string) (rest string, ok bool) {
	if len(name) < len(from) || name[:len(from)] != from || len(name) > len(from) && name[len(from)] != '/' {
		return "", false
	}
	return name[len(from):], true
}
