// Package regular opens files that workers write. If such a file is a pipe or a device instead, an
// ordinary open could block the agent forever.
package regular

import (
	"fmt"
	"os"
	"syscall"
)

// Open opens a regular file for reading. It never blocks.
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
