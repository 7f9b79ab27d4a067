package device

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Claims are the marks of one agent on the devices that it uses. They are locks on files, so they
// end with the process.
type Claims struct{ files []*os.File }

// Claim marks the devices of c as used by a job, in a directory that the agents of this machine
// share. others has a sentence for each device that another job uses. If the directory cannot be
// used, nothing is marked: the marks only serve a warning, and do not keep the job from training.
func (c Choice) Claim(dir, job string) (held *Claims, others []string) {
	held = &Claims{}
	if !c.Found || os.MkdirAll(dir, 0o700) != nil {
		return held, nil
	}
	for _, d := range c.Devices {
		name := string(c.Vendor.Kind) + "-" + d.Label
		if d.UUID != "" && d.Index >= 0 {
			name = d.UUID
		}
		f, err := os.OpenFile(filepath.Join(dir, filepath.Base(name)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			by, _ := os.ReadFile(f.Name())
			others = append(others, fmt.Sprintf("%s %s is used by %s, too", c.Vendor.name(), d.Label,
				strings.TrimSpace(string(by))))
			f.Close()
			continue
		}
		if err := f.Truncate(0); err == nil {
			fmt.Fprintln(f, job)
		}
		held.files = append(held.files, f)
	}
	return held, others
}

// Close removes the marks.
func (c *Claims) Close() {
	for _, f := range c.files {
		f.Close()
	}
}
