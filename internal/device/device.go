// Package device finds the accelerators of this machine and gives each worker its own.
//
// It reads what the kernel and the vendors' tools show and decides nothing else: Find lists the
// devices that this process may use, Set.Choose takes some of them, Choice.Environ has the variables
// of each worker, Choice.CPUs binds workers to the processors near their devices, and Claim tells
// two agents of one machine that they would use the same ones.
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

// ErrDevice: a device that does not exist, is not visible, or is named twice. [E-DEVICES]
var ErrDevice = errors.New("device")

// Kind is what users call a family of devices.
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
	Index int    // as the vendor's tool numbers it; -1 where only Label is known
	Label string // as the variable of visible devices names it: an index, or a UUID
	UUID  string // "" where unknown
	PCI   string // address on the bus, as 0000:3b:00.0; "" where unknown
}

// Set is the devices that a process of this machine may use, in the order in which it numbers them.
type Set struct {
	Vendor  Vendor
	Visible []Device
	Hidden  []Device // here, and hidden by the variable of visible devices
}

// Host is where devices are looked for. The zero value is this machine without an environment.
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

// Find lists the devices of a kind; with Any those of the first vendor that has some. No device is
// no error: the set is empty.
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

// visible is what the variables of visible devices leave. A name that is no device ends the list,
// as the vendors' libraries do it.
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

// named finds a device by index or by the beginning of its UUID. A part of a device (MIG) has a
// UUID that no list shows: it is taken as it is.
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

// String names the devices for people: gpu 0, 1.
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
