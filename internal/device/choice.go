package device

import (
	"slices"
	"strconv"
	"strings"
)

// Binding says how a worker is restricted to its devices.
type Binding string

const (
	// Auto shows every worker all devices of this node. Its local rank is the index of its device.
	Auto Binding = "auto"
	// Env shows a worker only its own devices, from index 0.
	Env Binding = "env"
	// None does not set the variables of visible devices.
	None Binding = "none"
)

// Choice has the devices of this node's workers, in the order of local ranks.
type Choice struct {
	Vendor  Vendor
	Devices []Device
	index   []int // of each device, among those visible to this process
	narrow  bool  // Devices differ from the visible devices, or have another order
	Found   bool  // the devices were found on this machine, and not only named by the user
}

// All takes every visible device.
func (s Set) All() Choice {
	c := Choice{Vendor: s.Vendor, Devices: s.Visible, Found: len(s.Visible) > 0}
	for i := range s.Visible {
		c.index = append(c.index, i)
	}
	return c
}

// Choose takes devices by a comma-separated list of their ids, which are those of the vendor's
// tool. If no device was found, it takes any ids. Errors wrap ErrDevice.
func (s Set) Choose(list string) (Choice, error) {
	c := Choice{Vendor: s.Vendor, Found: len(s.Visible)+len(s.Hidden) > 0}
	for id := range strings.SplitSeq(list, ",") {
		id = strings.TrimSpace(id)
		d, at, err := s.choose(id)
		if err != nil {
			return Choice{}, err
		}
		if slices.ContainsFunc(c.Devices, func(o Device) bool { return o.Label == d.Label }) {
			return Choice{}, bad("%s %s is named twice", s.Vendor.name(), id)
		}
		c.Devices, c.index = append(c.Devices, d), append(c.index, at)
	}
	c.narrow = !c.Found || len(c.index) != len(s.Visible) || !slices.IsSorted(c.index)
	return c, nil
}

func (s Set) choose(id string) (Device, int, error) {
	if len(s.Visible)+len(s.Hidden) == 0 {
		if n := number(id); n >= 0 && digits(id) {
			return Device{Index: n, Label: strconv.Itoa(n)}, n, nil
		}
		return Device{}, 0, bad("%q is no device id", id)
	}
	if d, ok := named(s.Visible, id); ok {
		at := slices.IndexFunc(s.Visible,
			func(o Device) bool { return o.Index == d.Index && (d.Index >= 0 || o.Label == d.Label) })
		if at >= 0 {
			return s.Visible[at], at, nil
		}
	}
	if _, hidden := named(s.Hidden, id); hidden {
		return Device{}, 0, bad("%s %s is here, and %s does not show it", s.Vendor.name(), id,
			s.Vendor.Variables[0])
	}
	if !digits(id) {
		return Device{}, 0, bad("%q is no device id; here: %s", id, s)
	}
	return Device{}, 0, bad("there is no %s %s; here: %s", s.Vendor.name(), id, s)
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// share returns the devices of one worker, as indexes in Devices. It is nil if there are fewer
// devices than workers: then no worker has a device of its own.
func (c Choice) share(local, workers int) []int {
	each := len(c.Devices) / max(1, workers)
	var own []int
	for i := range each {
		own = append(own, local*each+i)
	}
	return own
}

// Fits reports whether every worker gets at least one device, and all get the same number.
func (c Choice) Fits(workers int) bool {
	return len(c.Devices) >= workers && len(c.Devices)%workers == 0
}

// Environ returns the variables of each worker about its devices, NAME=VALUE, by local rank.
func (c Choice) Environ(b Binding, workers int) [][]string {
	envs := make([][]string, workers)
	for local := range envs {
		own := c.share(local, workers)
		if own == nil {
			continue
		}
		var e, selected []string
		visible := c.Devices
		for _, i := range own {
			at := i
			switch b {
			case Env:
				at = i - own[0]
			case None:
				at = c.index[i]
			}
			selected = append(selected, strconv.Itoa(at))
		}
		if b == Env {
			visible = c.Devices[own[0] : own[len(own)-1]+1]
		}
		if b == Env || b == Auto && c.narrow {
			e = append(e, c.Vendor.Variables[0]+"="+labels(visible))
			if c.Vendor.Order != "" {
				e = append(e, c.Vendor.Order)
			}
		}
		ids := strings.Join(selected, ",")
		e = append(e, "FLAGS_selected_"+c.Vendor.Paddle+"="+ids, "PADDLE_LOCAL_DEVICE_IDS="+ids)
		if c.Vendor.Kind == GPU {
			e = append(e, "FLAGS_selected_accelerators="+ids)
		}
		envs[local] = e
	}
	return envs
}

// String returns a list of the devices' ids.
func (c Choice) String() string { return labels(c.Devices) }

// Named returns devices of the first vendor by their numbers, without looking for them.
func Named(ids string) (Choice, error) { return Set{Vendor: vendors()[0]}.Choose(ids) }

// First returns the first n devices.
func (c Choice) First(n int) Choice {
	c.narrow = c.narrow || n < len(c.Devices)
	c.Devices, c.index = c.Devices[:n], c.index[:n]
	return c
}
