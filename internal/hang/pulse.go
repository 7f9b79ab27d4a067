package hang

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Pulse is how much one worker, with all that it started, has done since it began. Only the
// difference of two of them says something.
type Pulse struct {
	CPU time.Duration
	// bytes that were read and written, as far as the kernel counts them for a process
	IO      int64
	Output  int64            // bytes of its logs and of its progress file
	Threads map[int]Thread   // what the scheduler says, by thread id
	Sockets map[uint32]int64 // bytes that passed each TCP connection, by its inode
	Held    bool             // a thread is held by the kernel, as by a disk
}

// Thread is what the scheduler says of one thread since it began.
type Thread struct {
	Waited   time.Duration // for a processor. The kernel adds a wait when it ends
	Slices   uint64        // how often it was given a processor
	Runnable bool          // it has a processor, or waits for one
}

// Processes reads what processes did, without their output; connections are those of Connections.
func Processes(pids []int, connections map[uint32]int64) Pulse {
	p := Pulse{Threads: map[int]Thread{}, Sockets: map[uint32]int64{}}
	for _, pid := range pids {
		p.IO += ioOf(pid)
		p.addThreads(pid)
		p.addSockets(pid, connections)
	}
	return p
}

// addThreads reads the threads of a process. One that ends meanwhile is left out.
func (p *Pulse) addThreads(pid int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	for _, name := range namesIn(dir) {
		tid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err1 := os.ReadFile(filepath.Join(dir, name, "stat"))
		sched, err2 := os.ReadFile(filepath.Join(dir, name, "schedstat"))
		state := stateOf(string(stat))
		if err1 != nil || state == 0 {
			continue
		}
		p.Held = p.Held || state == 'D' && onLocalDisk(filepath.Join(dir, name))
		if err2 != nil {
			continue // a kernel without scheduler statistics
		}
		if t, ok := parseSchedstat(string(sched)); ok {
			t.Runnable = state == 'R'
			p.Threads[tid] = t
		}
	}
}

// stateOf is the state in a line of proc_pid_stat(5), behind the name in parentheses; 0 if there is
// none.
func stateOf(stat string) byte {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 || len(stat) < end+3 {
		return 0
	}
	return stat[end+2]
}

// parseSchedstat reads "time on a processor, time waited for one (both in ns), number of slices".
func parseSchedstat(text string) (Thread, bool) {
	f := strings.Fields(text)
	if len(f) != 3 {
		return Thread{}, false
	}
	waited, err1 := strconv.ParseInt(f[1], 10, 64)
	slices, err2 := strconv.ParseUint(f[2], 10, 64)
	return Thread{Waited: time.Duration(waited), Slices: slices}, err1 == nil && err2 == nil
}

// remote begins the names of the kernel's functions that wait for another machine, or for a file
// system in a process: the disks of this machine say nothing about them.
var remote = []string{"nfs", "rpc", "fuse", "request_wait", "ceph", "cifs", "smb", "cl_", "ll_",
	"p9_", "gpfs"}

// onLocalDisk reports whether a held thread may wait for a disk of this machine.
func onLocalDisk(dir string) bool {
	wchan, err := os.ReadFile(filepath.Join(dir, "wchan"))
	if err != nil {
		return true
	}
	for _, prefix := range remote {
		if strings.HasPrefix(string(wchan), prefix) {
			return false
		}
	}
	return true
}

// DiskBytes is how much all disks of this machine have read and written; 0 where that is
// unknown.
func DiskBytes() (bytes int64) {
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0
	}
	const sector = 512
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		read, _ := strconv.ParseInt(f[5], 10, 64)
		written, _ := strconv.ParseInt(f[9], 10, 64)
		bytes += (read + written) * sector
	}
	return bytes
}

// namesIn lists a directory; nothing where that cannot be done.
func namesIn(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // what ended meanwhile is left out
	return names
}

// ioOf is what a process read and wrote; 0 where that is unknown.
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
