package device

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Affinity says to which processors a worker is bound.
type Affinity string

// The values of torchrun's --numa-binding.
const (
	Unbound     Affinity = ""
	Node        Affinity = "node"         // all processors of the NUMA node of its device
	Socket      Affinity = "socket"       // all processors of that node's socket
	Exclusive   Affinity = "exclusive"    // an equal share of the node's cores
	CoreComplex Affinity = "core-complex" // cores of the node that share a cache
)

// topology has the processors and devices of one machine.
type topology struct {
	h       Host
	allowed []int // processors that this process may run on
	choice  Choice
}

// CPUs returns the processors of each worker, by local rank: those near its first device. allowed
// has the processors on which this process may run. Errors wrap ErrDevice.
func (c Choice) CPUs(h Host, a Affinity, workers int, allowed []int) ([][]int, error) {
	if a == Unbound {
		return make([][]int, workers), nil
	}
	if !c.Found || len(c.Devices) < workers {
		return nil, bad("--numa-binding=%s needs a device for each worker; found for %d workers: %d", a,
			workers, len(c.Devices))
	}
	t := topology{h, allowed, c}
	var out [][]int
	for local := range workers {
		i := c.share(local, workers)[0]
		cpus := t.bind(a, i)
		if len(cpus) == 0 {
			return nil, bad("--numa-binding=%s leaves no processor for %s %s", a, c.Vendor.name(),
				c.Devices[i].Label)
		}
		out = append(out, cpus)
	}
	return out, nil
}

func (t topology) bind(a Affinity, i int) []int {
	node := t.nodeOf(t.choice.Devices[i])
	cpus := t.cpusOf(node)
	switch a {
	case Socket:
		return t.socket(cpus)
	case Exclusive:
		return t.exclusive(cpus, node, i)
	case CoreComplex:
		return t.complex(cpus, node, i)
	}
	return cpus
}

// nodeOf returns the NUMA node of a device, 0 if the machine does not show it.
func (t topology) nodeOf(d Device) int {
	text, err := os.ReadFile(t.h.path("sys/bus/pci/devices", d.PCI, "numa_node"))
	if err != nil || d.PCI == "" {
		return 0
	}
	return max(0, number(strings.TrimSpace(string(text))))
}

func (t topology) cpusOf(node int) []int {
	return t.only(t.list("sys/devices/system/node/node" + strconv.Itoa(node) + "/cpulist"))
}

func (t topology) only(cpus []int) []int {
	return slices.DeleteFunc(cpus, func(c int) bool { return !slices.Contains(t.allowed, c) })
}

// socket returns the processors of all nodes on the socket of cpus.
func (t topology) socket(cpus []int) (out []int) {
	if len(cpus) == 0 {
		return nil
	}
	of := func(cpu int) string {
		text, _ := os.ReadFile(t.h.path("sys/devices/system/cpu/cpu"+strconv.Itoa(cpu),
			"topology/physical_package_id"))
		return strings.TrimSpace(string(text))
	}
	for _, node := range t.list("sys/devices/system/node/possible") {
		if c := t.cpusOf(node); len(c) > 0 && of(c[0]) == of(cpus[0]) {
			out = append(out, c...)
		}
	}
	slices.Sort(out)
	return out
}

// beside returns how many chosen devices are on a node, and the position of device i among them.
func (t topology) beside(node, i int) (count, at int) {
	for k, d := range t.choice.Devices {
		if t.nodeOf(d) != node {
			continue
		}
		if k < i {
			at++
		}
		count++
	}
	return count, at
}

// exclusive divides the physical cores of a node among its devices. If they do not divide evenly,
// the first devices get one more.
func (t topology) exclusive(cpus []int, node, i int) (out []int) {
	cores := t.group(cpus, func(cpu int) []int {
		return t.list("sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/thread_siblings_list")
	})
	count, at := t.beside(node, i)
	each, more := len(cores)/count, len(cores)%count
	first := at*each + min(at, more)
	last := first + each
	if at < more {
		last++
	}
	for _, c := range cores[first:last] {
		out = append(out, c...)
	}
	slices.Sort(out)
	return out
}

// complex assigns the groups of cores that share a cache to the devices in turn, the largest first.
func (t topology) complex(cpus []int, node, i int) []int {
	groups := t.group(cpus, t.sharing)
	if len(groups) == 0 {
		return nil
	}
	slices.SortStableFunc(groups, func(a, b []int) int { return len(b) - len(a) })
	_, at := t.beside(node, i)
	return groups[at%len(groups)]
}

// sharing returns the processors that share the cache of the highest level with cpu.
func (t topology) sharing(cpu int) (out []int) {
	dirs, _ := filepath.Glob(t.h.path("sys/devices/system/cpu/cpu"+strconv.Itoa(cpu), "cache/index[0-9]*"))
	highest := -1
	for _, d := range dirs {
		kind, _ := os.ReadFile(filepath.Join(d, "type"))
		text, _ := os.ReadFile(filepath.Join(d, "level"))
		level := number(strings.TrimSpace(string(text)))
		if strings.TrimSpace(string(kind)) == "Instruction" || level <= highest {
			continue
		}
		shared, _ := os.ReadFile(filepath.Join(d, "shared_cpu_list"))
		highest, out = level, ParseCPUs(string(shared))
	}
	return out
}

// group groups processors with the same siblings. The groups are ordered by their first processor.
func (t topology) group(cpus []int, siblings func(int) []int) (out [][]int) {
	at := map[int]int{}
	for _, cpu := range cpus {
		key := cpu
		if s := siblings(cpu); len(s) > 0 {
			key = slices.Min(s)
		}
		i, ok := at[key]
		if !ok {
			i, at[key] = len(out), len(out)
			out = append(out, nil)
		}
		out[i] = append(out[i], cpu)
	}
	slices.SortFunc(out, func(a, b []int) int { return a[0] - b[0] })
	return out
}

func (t topology) list(path string) []int {
	text, err := os.ReadFile(t.h.path(path))
	if err != nil {
		return nil
	}
	return ParseCPUs(string(text))
}

// ParseCPUs returns the numbers of a list like 0-3,8.
func ParseCPUs(text string) (out []int) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, ranged := strings.Cut(part, "-")
		lo, hi := number(from), number(to)
		if !ranged {
			hi = lo
		}
		for n := max(lo, 0); lo >= 0 && n <= hi; n++ {
			out = append(out, n)
		}
	}
	return out
}

// Allowed returns the processors on which this process may run.
func Allowed() (out []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for cpu := 0; len(out) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			out = append(out, cpu)
		}
	}
	return out
}
