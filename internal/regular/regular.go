// Package regular opens files that workers write. Where a pipe or a device lies instead, an
// ordinary open would wait for ever, and with it the agent.
package regular

import (
	"fmt"
	"os"
	"syscall"
)

// Open opens a regular file for reading. It never waits.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: %s", path, info.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
