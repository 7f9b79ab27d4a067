package device

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Vendor is a vendor of devices that frameworks distinguish.
type Vendor struct {
	Kind      Kind
	Variables []string // of visible devices; the first one is set for workers
	Order     string   // NAME=VALUE that is set with it, so that indexes are those of the vendor's tool
	Paddle    string   // the plural in FLAGS_selected_…
	find      func(context.Context, Host) []Device
}

func (v Vendor) name() string {
	if v.Kind == Any {
		return "device"
	}
	return string(v.Kind)
}

// vendors returns the known vendors, in the order in which Find tries them.
func vendors() []Vendor {
	return []Vendor{
		{Kind: GPU, Variables: []string{"CUDA_VISIBLE_DEVICES"},
			Order: "CUDA_DEVICE_ORDER=PCI_BUS_ID", Paddle: "gpus", find: nvidia},
		{Kind: GPU, Variables: []string{"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}, Paddle: "gpus",
			find: amd},
		{Kind: XPU, Variables: []string{"XPU_VISIBLE_DEVICES", "XPULINK_VISIBLE_DEVICES",
			"CUDA_VISIBLE_DEVICES"},
			Paddle: "xpus", find: numbered("dev", `^xpu([0-9]+)$`)},
		{Kind: XPU, Variables: []string{"ZE_AFFINITY_MASK"}, Paddle: "xpus", find: intel},
		{Kind: NPU, Variables: []string{"ASCEND_RT_VISIBLE_DEVICES", "NPU_VISIBLE_DEVICES"}, Paddle: "npus",
			find: numbered("dev", `^davinci([0-9]+)$`)},
	}
}

// generic returns the vendor of devices that were named, but not found.
func generic(kind Kind) Vendor {
	for _, v := range vendors() {
		if v.Kind == kind || kind == Any {
			return v
		}
	}
	return Vendor{Kind: kind}
}

// nvidia asks nvidia-smi, which in a container lists the devices that the container may use. If it
// does not answer in time, nvidia reads the driver's files in /proc.
func nvidia(ctx context.Context, h Host) []Device {
	if out, err := h.tool(ctx, "nvidia-smi", "--query-gpu=index,uuid,pci.bus_id",
		"--format=csv,noheader"); err == nil {
		return parseSMI(out)
	}
	// in the order of the bus, as nvidia-smi numbers them
	dirs, _ := os.ReadDir(h.path("proc/driver/nvidia/gpus"))
	var all []Device
	for i, d := range dirs {
		text, _ := os.ReadFile(h.path("proc/driver/nvidia/gpus", d.Name(), "information"))
		uuid := regexp.MustCompile(`GPU UUID:\s*(\S+)`).FindSubmatch(text)
		dev := Device{Index: i, Label: strconv.Itoa(i), PCI: d.Name()}
		if uuid != nil {
			dev.UUID = string(uuid[1])
		}
		all = append(all, dev)
	}
	return all
}

// parseSMI reads lines like "0, GPU-5d…, 00000000:3B:00.0".
func parseSMI(out string) (all []Device) {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), ", ")
		index, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		d := Device{Index: index, Label: f[0]}
		if len(f) > 1 {
			d.UUID = f[1]
		}
		if len(f) > 2 { // the domain has eight digits here, and four in /sys
			d.PCI = strings.ToLower(f[2])
			if domain, rest, ok := strings.Cut(d.PCI, ":"); ok && len(domain) == 8 {
				d.PCI = domain[4:] + ":" + rest
			}
		}
		all = append(all, d)
	}
	return all
}

// tool runs a program of a vendor, and gives up after the limit. A driver that hangs must not block
// the start of workers.
func (h Host) tool(ctx context.Context, name string, args ...string) (string, error) {
	path, err := lookPath(h.env("PATH"), name)
	if err != nil {
		return "", err
	}
	limit := h.Limit
	if limit == 0 {
		limit = toolLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = 100 * time.Millisecond // its children may hold the pipe open
	out, err := cmd.Output()
	return string(out), err
}

func lookPath(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}

// amd reads the topology of the compute driver. A node with SIMD units is a GPU.
func amd(_ context.Context, h Host) (all []Device) {
	nodes, _ := filepath.Glob(h.path("sys/class/kfd/kfd/topology/nodes/*/properties"))
	slices.SortFunc(nodes, func(a, b string) int {
		return number(filepath.Base(filepath.Dir(a))) - number(filepath.Base(filepath.Dir(b)))
	})
	for _, n := range nodes {
		text, _ := os.ReadFile(n)
		if m := regexp.MustCompile(`(?m)^simd_count ([0-9]+)$`).FindSubmatch(text); m != nil &&
			number(string(m[1])) > 0 {
			i := len(all)
			all = append(all, Device{Index: i, Label: strconv.Itoa(i)})
		}
	}
	return all
}

// intel counts render nodes of the compute driver xe.
func intel(_ context.Context, h Host) (all []Device) {
	nodes, _ := filepath.Glob(h.path("sys/class/drm/renderD*/device/vendor"))
	for _, n := range nodes {
		vendor, _ := os.ReadFile(n)
		driver, _ := os.Readlink(filepath.Join(filepath.Dir(n), "driver"))
		if strings.TrimSpace(string(vendor)) == "0x8086" && filepath.Base(driver) == "xe" {
			i := len(all)
			all = append(all, Device{Index: i, Label: strconv.Itoa(i)})
		}
	}
	return all
}

// numbered finds device files by the number in their name.
func numbered(dir, pattern string) func(context.Context, Host) []Device {
	return func(_ context.Context, h Host) (all []Device) {
		files, _ := os.ReadDir(h.path(dir))
		for _, f := range files {
			if m := regexp.MustCompile(pattern).FindStringSubmatch(f.Name()); m != nil {
				all = append(all, Device{Index: number(m[1]), Label: m[1]})
			}
		}
		slices.SortFunc(all, func(a, b Device) int { return a.Index - b.Index })
		return all
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
