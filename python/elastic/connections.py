"""The TCP connections of a process group. Shutting them ends a blocked collective.

When gloo reads the end of a connection, it ends its receives, and the sends that have not begun. It
does not end a send whose write failed, so a collective that waits for such a send never ends.
Therefore the connections are shut while no data moves, and only for reading. A write that is under
way completes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from typing import Iterator, List, NamedTuple, Set

QUIET = 20
"""Milliseconds without data after which a connection is quiet."""
_SENT, _RECEIVED = 44, 52
"""Offsets in the kernel's tcp_info of the milliseconds since data were sent, and since data arrived."""


class Mine(NamedTuple):
    """Tells the connections of the group from others of the script, which are left alone."""

    ports: Set[int]
    """Ports on which this process listens for members."""
    peers: Set[int]
    """Ports on which the members listen."""
    made: Set[int]
    """Sockets that were made with the group, by their inode."""


def listening() -> Set[int]:
    """The ports on which this process listens."""
    ports = set()
    for one in _sockets():
        with one, contextlib.suppress(OSError):
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                ports.add(one.getsockname()[1])
    return ports


def inodes() -> Set[int]:
    """The TCP sockets of this process, by their inode."""
    found = set()
    for one in _sockets():
        with one:
            found.add(os.fstat(one.fileno()).st_ino)
    return found


def shut(mine: Mine) -> int:
    """Make the process group read end of file on each of its connections."""
    count = 0
    for one in _of(mine):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RD)
            count += 1
    return count


def quiet(mine: Mine) -> bool:
    """Whether all connections are quiet."""
    return all([_idle(one) >= QUIET for one in _of(mine)])


def _idle(one: socket.socket) -> int:
    """Milliseconds since data moved."""
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return min(int(struct.unpack_from("=I", info, at)[0]) for at in (_SENT, _RECEIVED))


def _of(mine: Mine) -> Iterator[socket.socket]:
    """Yield the connections of the group. Each is closed when the next one is requested."""
    for one in _sockets():
        with one, contextlib.suppress(OSError):
            listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            ours = os.fstat(one.fileno()).st_ino in mine.made or one.getsockname()[1] in mine.ports
            if not listens and (ours or one.getpeername()[1] in mine.peers):
                yield one


def _sockets() -> List[socket.socket]:
    """The TCP sockets of this process, each by a descriptor of its own."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            one = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue  # it is closed by now
        if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
            found.append(one)
        else:
            one.close()
    return found
