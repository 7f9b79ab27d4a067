package device

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CPUs returns the processors of each worker, by local rank: those of the NUMA node of its first
// device. allowed has the processors on which this process may run. Errors wrap ErrDevice.
func (c Choice) CPUs(h Host, workers int, allowed []int) ([][]int, error) {
	if !c.Found || len(c.Devices) < workers {
		return nil, bad("--numa-binding needs a device for each worker; found for %d workers: %d", workers,
			len(c.Devices))
	}
	var out [][]int
	for local := range workers {
		d := c.Devices[c.share(local, workers)[0]]
		near := h.cpusOf(h.numaNode(d))
		cpus := slices.DeleteFunc(near, func(n int) bool { return !slices.Contains(allowed, n) })
		if len(cpus) == 0 {
			return nil, bad("--numa-binding leaves no processor for %s %s", c.Vendor.name(), d.Label)
		}
		out = append(out, cpus)
	}
	return out, nil
}

// numaNode returns the NUMA node of a device, 0 if the machine does not show it.
func (h Host) numaNode(d Device) int {
	text, err := os.ReadFile(h.path("sys/bus/pci/devices", d.PCI, "numa_node"))
	if err != nil || d.PCI == "" {
		return 0
	}
	return max(0, number(strings.TrimSpace(string(text))))
}

// cpusOf returns the processors of a NUMA node.
func (h Host) cpusOf(node int) []int {
	text, err := os.ReadFile(h.path("sys/devices/system/node/node"+strconv.Itoa(node), "cpulist"))
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
