// Package device finds the accelerators of this machine and assigns them to workers.
//
// Find lists the devices that this process may use, from the kernel and the vendors' tools.
// Set.Choose takes some of them. Choice.Environ returns the variables of each worker. Choice.CPUs
// binds workers to the processors near their devices.
package device

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrDevice means that a device does not exist, is not visible, or is named twice. [E-DEVICES]
var ErrDevice = errors.New("device")

// Kind is a family of devices, by the name that users know.
type Kind string

// The kinds that --nproc-per-node understands.
const (
	GPU Kind = "gpu" // NVIDIA or AMD
	XPU Kind = "xpu" // Kunlun or Intel
	NPU Kind = "npu" // Ascend
	Any Kind = ""
)

// Device is one accelerator.
type Device struct {
	Index int    // the number in the vendor's tool; -1 if only Label is known
	Label string // the name in the variable of visible devices: an index, or a UUID
	UUID  string // "" if unknown
	PCI   string // address on the bus, like 0000:3b:00.0; "" if unknown
}

// Set has the devices that a process of this machine may use, in the order in which the process
// numbers them.
type Set struct {
	Vendor  Vendor
	Visible []Device
	Hidden  []Device // devices of this machine that the variable of visible devices hides
}

// Host is the machine to search for devices. The zero value is this machine, without an
// environment.
type Host struct {
	Root   string // holds proc, sys and dev; "": /
	Getenv func(string) string
	Limit  time.Duration // for a vendor's tool; 0: 5 s
}

const toolLimit = 5 * time.Second

func (h Host) path(elem ...string) string {
	return filepath.Join(append([]string{"/", h.Root}, elem...)...)
}

func (h Host) env(name string) string {
	if h.Getenv == nil {
		return ""
	}
	return h.Getenv(name)
}

// Find lists the devices of a kind. With Any it lists those of the first vendor that has some. If
// there is no device, the set is empty.
func Find(ctx context.Context, h Host, kind Kind) Set {
	for _, v := range vendors() {
		if kind != Any && v.Kind != kind {
			continue
		}
		all := v.find(ctx, h)
		if len(all) == 0 {
			continue
		}
		return v.visible(h, all)
	}
	return Set{Vendor: generic(kind)}
}

// visible returns the devices that the variables of visible devices leave. As in the vendors'
// libraries, the list ends at the first name that is not a device.
func (v Vendor) visible(h Host, all []Device) Set {
	s := Set{Vendor: v, Visible: all}
	for _, name := range v.Variables {
		value := h.env(name)
		if value == "" || value == "all" {
			continue
		}
		s.Visible = nil
		for label := range strings.SplitSeq(value, ",") {
			d, ok := named(all, strings.TrimSpace(label))
			if !ok || slices.ContainsFunc(s.Visible, func(o Device) bool { return o.Label == d.Label }) {
				break
			}
			s.Visible = append(s.Visible, d)
		}
		for _, d := range all {
			if !slices.ContainsFunc(s.Visible, func(o Device) bool { return o.Index == d.Index }) {
				s.Hidden = append(s.Hidden, d)
			}
		}
		return s
	}
	return s
}

// named finds a device by its index or by the beginning of its UUID. The UUID of a part of a device
// (MIG) is in no list, so named accepts any.
func named(all []Device, label string) (Device, bool) {
	if i, err := strconv.Atoi(label); err == nil {
		for _, d := range all {
			if d.Index == i {
				d.Label = label
				return d, true
			}
		}
		return Device{}, false
	}
	if strings.HasPrefix(label, "MIG-") {
		return Device{Index: -1, Label: label}, true
	}
	for _, d := range all {
		if d.UUID != "" && label != "" && strings.HasPrefix(d.UUID, label) {
			d.Label = label
			return d, true
		}
	}
	return Device{}, false
}

// String returns the devices for messages: gpu 0,1.
func (s Set) String() string {
	if len(s.Visible) == 0 {
		return "no " + s.Vendor.name()
	}
	return s.Vendor.name() + " " + labels(s.Visible)
}

func labels(devices []Device) string {
	var all []string
	for _, d := range devices {
		all = append(all, d.Label)
	}
	return strings.Join(all, ",")
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDevice, fmt.Sprintf(format, args...))
}
