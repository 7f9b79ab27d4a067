package device

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Errors returns what the kernel log says of NVIDIA devices of this machine since then, and which of
// them have memory errors that could not be corrected. A log or tool that this process may not read says
// nothing. Each error is one sentence.
func (h Host) Errors(ctx context.Context, since time.Time) []string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return nil
	}
	after := max(0, time.Duration(now.Nano())-time.Since(since))
	all := xids(readLog(h.path("dev/kmsg")), after)
	out, err := h.tool(ctx, "nvidia-smi", "--query-gpu=pci.bus_id,ecc.errors.uncorrected.volatile.total",
		"--format=csv,noheader,nounits")
	if err != nil {
		return all
	}
	return append(all, uncorrected(out)...)
}

// mostLog bounds what is read of the kernel log.
const mostLog = 4 << 20

// readLog returns the kernel log, or what of it can be read without waiting for more.
func readLog(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var text strings.Builder
	record := make([]byte, 8<<10) // the kernel returns one record for each read
	for text.Len() < mostLog {
		n, err := unix.Read(fd, record)
		switch {
		case err == unix.EPIPE: // records were overwritten before they were read
			continue
		case err != nil || n <= 0:
			return text.String()
		}
		text.Write(record[:n])
	}
	return text.String()
}

// xid is a record of the kernel log with an error of an NVIDIA device: "4,812,93128031,-;NVRM: Xid
// (PCI:0000:3b:00): 79, pid=…, GPU has fallen off the bus." The third number is the time in microseconds.
var xid = regexp.MustCompile(`^\d+,\d+,(\d+),[^;]*;NVRM: Xid \((PCI:[0-9a-fA-F:.]+)\): (\d+), (.*)$`)

// ofPrograms are the errors that a program causes by itself, or that follow from the end of one.
var ofPrograms = []string{"13", "31", "43", "45"}

// maxErrors bounds what one look says: a broken device repeats itself.
const maxErrors = 8

// xids returns the errors of devices in a kernel log, after a time since the machine was booted. Each
// kind of a device is said once.
func xids(log string, after time.Duration) (all []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(log) {
		m := xid.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil || slices.Contains(ofPrograms, m[3]) || seen[m[2]+m[3]] || len(all) == maxErrors {
			continue
		}
		at, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || time.Duration(at)*time.Microsecond < after {
			continue
		}
		seen[m[2]+m[3]] = true
		all = append(all, fmt.Sprintf("Xid %s on %s: %s", m[3], m[2], shorten(m[4])))
	}
	return all
}

// shorten cuts the text of a driver.
func shorten(text string) string {
	const most = 200
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// uncorrected returns which devices have uncorrectable memory errors since the driver was loaded, from
// lines of the vendor's tool: "00000000:3B:00.0, 2".
func uncorrected(out string) (all []string) {
	for line := range strings.Lines(out) {
		bus, count, _ := strings.Cut(strings.TrimSpace(line), ", ")
		if n, err := strconv.ParseUint(count, 10, 63); err == nil && n > 0 && len(all) < maxErrors {
			all = append(all, fmt.Sprintf("%d uncorrectable memory errors on %s", n, shorten(bus)))
		}
	}
	return all
}
