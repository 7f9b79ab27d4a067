package hang

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Pulse counts what one worker and its descendants have done since their start. Only the difference
// of two pulses is meaningful.
type Pulse struct {
	CPU time.Duration
	// bytes read and written, as the kernel counts them for a process
	IO      int64
	Output  int64            // bytes of its logs and of its progress file
	Threads map[int]Thread   // scheduler statistics, by thread id
	Sockets map[uint32]int64 // bytes of each TCP connection, by inode
	Held    bool             // a thread waits in the kernel, for example for a disk
}

// Thread has the scheduler statistics of one thread since its start.
type Thread struct {
	Waited   time.Duration // for a processor; the kernel counts a wait when it ends
	Slices   uint64        // how often it got a processor
	Runnable bool          // it runs, or waits for a processor
}

// Processes reads the pulse of processes, without their output. connections is the result of
// Connections.
func Processes(pids []int, connections map[uint32]int64) Pulse {
	p := Pulse{Threads: map[int]Thread{}, Sockets: map[uint32]int64{}}
	for _, pid := range pids {
		p.IO += ioOf(pid)
		p.addThreads(pid)
		p.addSockets(pid, connections)
	}
	return p
}

// addThreads adds the threads of a process. It skips threads that end meanwhile.
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
			continue // the kernel has no scheduler statistics
		}
		if t, ok := parseSchedstat(string(sched)); ok {
			t.Runnable = state == 'R'
			p.Threads[tid] = t
		}
	}
}

// stateOf returns the state in a line of proc_pid_stat(5), after the name in parentheses; 0: none.
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

// remoteWaits are prefixes of kernel functions that wait for another machine or for a FUSE process. The
// counters of the local disks say nothing about such a wait.
var remoteWaits = []string{"nfs", "rpc", "fuse", "request_wait", "ceph", "cifs", "smb", "cl_", "ll_",
	"p9_", "gpfs"}

// onLocalDisk reports whether a waiting thread may wait for a local disk.
func onLocalDisk(dir string) bool {
	wchan, err := os.ReadFile(filepath.Join(dir, "wchan"))
	if err != nil {
		return true
	}
	for _, prefix := range remoteWaits {
		if strings.HasPrefix(string(wchan), prefix) {
			return false
		}
	}
	return true
}

// DiskBytes returns how many bytes the disks of this machine have read and written; 0: unknown.
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

// namesIn lists a directory. It returns nothing after an error.
func namesIn(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // without entries that are gone meanwhile
	return names
}

// ioOf returns how many bytes a process has read and written; 0: unknown.
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
