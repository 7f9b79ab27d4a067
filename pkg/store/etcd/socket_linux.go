package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// errOtherUser is the text by which an error of gRPC is recognised: it passes nothing else on.
const errOtherUser = "the server on this socket is of user"

// dialOwn connects to a socket, and fails if a process of another user, other than root, serves it.
func dialOwn(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := checkServer(c.(*net.UnixConn), os.Geteuid()); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func checkServer(c *net.UnixConn, user int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var server *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		server, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("ask whose socket it is: %w", err)
	}
	if uid := int(server.Uid); uid != user && uid != 0 {
		return fmt.Errorf("%s %d, you are %d", errOtherUser, uid, user)
	}
	return nil
}
