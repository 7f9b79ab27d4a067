package device_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// kernelLog is as /dev/kmsg of a machine with H100s showed it, in the year after the machine was booted.
const kernelLog = `6,582,7283748870,-;veth7e7904c: renamed from eth0
4,812,31536000000001,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, MMU Fault
4,813,31536000000002,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,814,31536000000003,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,815,31536000000004,-;NVRM: Xid (PCI:0000:5d:00): 94, pid=4711, name=python3, Contained: SM (0x1). RST: No, D-RST: No
 SUBSYSTEM=pci
4,816,5,-;NVRM: Xid (PCI:0000:5d:00): 48, pid=1, name=python3, DBE (double bit error), an hour ago
4,817,31536000000005,-;NVRM: Xid: not a record
`

// After a worker failed, errors of the hardware are evidence: each once, none that a program causes, and
// none of before.
func TestErrors(t *testing.T) {
	const ecc = `echo "00000000:3B:00.0, [N/A]"; echo "00000000:5D:00.0, 0"; echo "00000000:9B:00.0, 2"`
	off := "Xid 79 on PCI:0000:3b:00: pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
	contained := "Xid 94 on PCI:0000:5d:00: pid=4711, name=python3, Contained: SM (0x1). RST: No, D-RST: No"
	memory := "2 uncorrectable memory errors on 00000000:9B:00.0"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing can be read": {nil, nil},
		"the log":             {map[string]string{"dev/kmsg": kernelLog}, []string{off, contained}},
		"the tool":            {map[string]string{"bin/nvidia-smi": "#!/bin/sh\n" + ecc + "\n"}, []string{memory}},
		"both": {map[string]string{"dev/kmsg": kernelLog, "bin/nvidia-smi": "#!/bin/sh\n" + ecc + "\n"},
			[]string{off, contained, memory}},
		"the tool fails": {map[string]string{"bin/nvidia-smi": "#!/bin/sh\necho Unable to determine; exit 9\n"}, nil},
		"a log without end": {map[string]string{"dev/kmsg": strings.Repeat(kernelLog, 20_000)},
			[]string{off, contained}},
	} {
		got := machine(t, c.files).Errors(t.Context(), time.Now().Add(-time.Second))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
