package hang

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// addSockets adds the TCP connections of a process.
func (p *Pulse) addSockets(pid int, connections map[uint32]int64) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	for _, name := range namesIn(dir) {
		to, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		number, ok := strings.CutPrefix(to, "socket:[")
		inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 32)
		if !ok || err != nil {
			continue
		}
		if bytes, ok := connections[uint32(inode)]; ok {
			p.Sockets[uint32(inode)] = bytes
		}
	}
}

// The constants of sock_diag(7): sizes of records, and offsets of fields.
const (
	diagRequestBytes = 56
	diagMessageBytes = 72
	diagInodeAt      = 68
	diagInfo         = 2 // INET_DIAG_INFO: a struct tcp_info
	infoAckedAt      = 120
	infoReceivedAt   = 128
	allStates        = 0xffffffff
)

// Connections returns the bytes that each TCP connection of this network namespace moved in both
// directions, by inode. It returns nothing if the kernel does not support it.
func Connections() map[uint32]int64 {
	bytes := map[uint32]int64{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		dumpTCP(family, bytes)
	}
	return bytes
}

func dumpTCP(family byte, bytes map[uint32]int64) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	patience := unix.Timeval{Sec: 1}
	if unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience) != nil {
		return
	}
	request := make([]byte, unix.SizeofNlMsghdr+diagRequestBytes)
	order := binary.NativeEndian
	order.PutUint32(request, uint32(len(request)))
	order.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := request[unix.SizeofNlMsghdr:]
	body[0], body[1], body[2] = family, unix.IPPROTO_TCP, 1<<(diagInfo-1)
	order.PutUint32(body[4:], allStates)
	if unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || !readDiag(buf[:n], bytes) {
			return
		}
	}
}

// readDiag reads the messages of one reply, and reports whether more replies follow.
func readDiag(messages []byte, bytes map[uint32]int64) bool {
	order := binary.NativeEndian
	for len(messages) >= unix.SizeofNlMsghdr {
		length, kind := int(order.Uint32(messages)), order.Uint16(messages[4:])
		if length < unix.SizeofNlMsghdr || length > len(messages) || kind == unix.NLMSG_DONE ||
			kind == unix.NLMSG_ERROR {
			return false
		}
		if body := messages[unix.SizeofNlMsghdr:length]; len(body) >= diagMessageBytes {
			if n, ok := infoBytes(body[diagMessageBytes:]); ok {
				bytes[order.Uint32(body[diagInodeAt:])] = n
			}
		}
		messages = messages[min(align(length), len(messages)):]
	}
	return true
}

// infoBytes finds struct tcp_info in the attributes of a socket.
func infoBytes(attributes []byte) (int64, bool) {
	order := binary.NativeEndian
	const header = 4
	for len(attributes) >= header {
		length, kind := int(order.Uint16(attributes)), order.Uint16(attributes[2:])
		if length < header || length > len(attributes) {
			return 0, false
		}
		if info := attributes[header:length]; kind == diagInfo && len(info) >= infoReceivedAt+8 {
			return int64(order.Uint64(info[infoAckedAt:]) + order.Uint64(info[infoReceivedAt:])), true
		}
		attributes = attributes[min(align(length), len(attributes)):]
	}
	return 0, false
}

// align rounds up like netlink.
func align(n int) int { return (n + 3) &^ 3 }
