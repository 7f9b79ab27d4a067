package dirfs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteDirect writes past the page cache. If the file system cannot do that, or cannot do it from
// this memory, it is Write.
func (f osFile) WriteDirect(b []byte) (n int, err error) {
	if f.setDirect(unix.O_DIRECT) == nil {
		n, err = f.Write(b)
		if cleared := f.setDirect(0); cleared != nil {
			return n, errors.Join(err, cleared)
		}
		if !errors.Is(err, syscall.EINVAL) {
			return n, err
		}
	}
	k, err := f.Write(b[n:])
	return n + k, err
}

// setDirect sets the flag O_DIRECT of the file, or clears it.
func (f osFile) setDirect(flag int) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT|flag)
	}
	return err
}
