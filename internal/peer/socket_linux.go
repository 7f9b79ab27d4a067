package peer

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpAfter makes the kernel end the connection when what was sent is not acknowledged for d;
// by itself it would try for a quarter of an hour.
func giveUpAfter(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
