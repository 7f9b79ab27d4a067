package peer

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpAfter makes the kernel end a connection if sent data is not acknowledged for d. The default
// is about 15 minutes.
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
