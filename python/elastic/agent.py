"""The agent of this node, on its private socket ($ELASTIC_AGENT_SOCKET).

A worker reports that its process can stay when the world changes. The agent asks it to leave a
generation. The worker answers when it takes part in no collective of that generation any more, and
receives the World of the next one. Without an agent, or if the agent refuses, the worker is ended
and started again like any other.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import socket
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

from .errors import say

VERSION = 1
"""Version of the messages. An agent refuses any other one."""


class Left(Exception):
    """The request belongs to a generation that this worker leaves."""


class StoreError(RuntimeError):
    """The store of the generation does not answer, or refuses."""


class Agent:
    """The connection to the agent, one for each process. Any thread may call the methods."""

    def __init__(self, path: str, generation: int, local_rank: int, on_leave: Callable[[int], None]) -> None:
        self._path = path
        self._on_leave = on_leave
        self._worlds: "queue.SimpleQueue[Dict[str, str]]" = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards what follows
        self._asking: Set[socket.socket] = set()  # connections that requests of this generation use
        self._idle: List[socket.socket] = []
        self._told = 0  # the newest generation that this worker was asked to leave
        self.generation = generation
        self.leaving = threading.Event()
        self.gone = threading.Event()
        self._socket = self._dial({"generation": generation, "local_rank": local_rank})
        threading.Thread(target=self._listen, name="elastic-agent", daemon=True).start()

    def close(self) -> None:
        """Close the connection. At the next change of the world this worker is ended and started again."""
        with self._lock:
            self._end_requests()
            idle, self._idle = self._idle, []
        for connection in [self._socket, *idle]:
            _shut(connection)
            connection.close()

    def refuses(self) -> bool:
        """Whether the agent refuses this helper. The reason comes on the first connection."""
        connection = self._dial({"store": ""})
        try:
            with contextlib.suppress(OSError):  # the agent has hung up, and its answer can still be read
                connection.sendall(json.dumps({"op": "get", "keys": [], "generation": 0}).encode() + b"\n")
            return "refused" in json.loads(_line(connection))
        finally:
            connection.close()

    # Messages from and to the agent.

    def can_stay(self, can: bool) -> None:
        self._say({"can_stay": can})

    def left(self, step: Optional[int]) -> None:
        """Report that this worker takes part in no collective of its generation any more. step is
        the step of its state; None: it has no state."""
        self._say({"left": {"generation": self.generation, "step": step}})

    def received(self, done: int, total: int) -> None:
        """Report how many bytes of another rank's state this worker has received."""
        self._say({"received": {"done": done, "total": total}})

    def next_world(self, seconds: float) -> Optional[Dict[str, str]]:
        """Return the environment of the next generation, or None after so many seconds."""
        try:
            environ = self._worlds.get(timeout=seconds)
        except queue.Empty:
            return None
        with self._lock:
            self.generation = int(environ["ELASTIC_GENERATION"])
            if self._told < self.generation:  # otherwise this generation is over already
                self.leaving.clear()
        return environ

    # The store of the generation.

    def ask(self, op: str, keys: List[str], **more: Any) -> Dict[str, Any]:
        """Send one request to the store. It is cancelled when this worker is asked to leave."""
        connection = self._take()
        try:
            request = dict(more, op=op, keys=keys, generation=self.generation)
            connection.sendall(json.dumps(request).encode() + b"\n")
            reply: Dict[str, Any] = json.loads(_line(connection))
        except (OSError, ValueError) as error:
            self._drop(connection)
            raise self._failed(error) from None
        self._give_back(connection)
        if reply.get("error"):
            raise self._failed(reply["error"])
        return reply

    def _failed(self, why: Any) -> Exception:
        """Return the error of a failed request. The store of a generation that is over may fail a moment before
        this worker is asked to leave."""
        return Left("the generation is over") if self.leaving.is_set() else StoreError(f"elastic store: {why}")

    def set(self, key: str, value: bytes) -> None:
        self.ask("set", [key], values=[base64.b64encode(value).decode()])

    def get(self, keys: List[str], seconds: float) -> Optional[List[bytes]]:
        """Return the values of keys when all of them are set; None: they are not set in so many seconds."""
        reply = self.ask("get", keys, wait_ms=int(seconds * 1000))
        return [base64.b64decode(v or "") for v in reply["values"]] if reply["found"] else None

    # Connections.

    def _dial(self, opening: Dict[str, Any]) -> socket.socket:
        """Connect through the directory, because the path may be longer than a socket address."""
        directory = os.open(os.path.dirname(self._path), os.O_PATH | os.O_DIRECTORY)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(self._path)}")
            connection.sendall(json.dumps(dict(opening, version=VERSION)).encode() + b"\n")
        except OSError:
            connection.close()
            raise
        finally:
            os.close(directory)
        return connection

    def _take(self) -> socket.socket:
        with self._lock:
            if self.leaving.is_set():
                raise Left("the generation is over")
            connection = self._idle.pop() if self._idle else self._dial({"store": ""})
            self._asking.add(connection)
            return connection

    def _give_back(self, connection: socket.socket) -> None:
        """Keep a connection for the next request, unless it was closed meanwhile."""
        with self._lock:
            if connection in self._asking:
                self._asking.remove(connection)
                self._idle.append(connection)
                return
        connection.close()

    def _drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._asking.discard(connection)
        connection.close()

    def _end_requests(self) -> None:
        """Wake the threads that wait for an answer. Each closes its connection. _lock is held, so a
        connection is shut before it is closed."""
        for connection in self._asking:
            _shut(connection)
        self._asking.clear()

    def _say(self, line: Dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the agent is gone, and ends this process
            self._socket.sendall(json.dumps(line).encode() + b"\n")

    def _listen(self) -> None:
        for line in _lines(self._socket):
            if "refused" in line:
                say(f"this worker is started again when the world changes: {line['refused']}")
                break
            if "leave" in line:
                self._leave(line["leave"])
            if "world" in line:
                self._worlds.put(line["world"])
        self.gone.set()

    def _leave(self, generation: int) -> None:
        """Handle the request to leave a generation, whose world next_world may not have returned yet."""
        with self._lock:
            self._told = generation
            self.leaving.set()
            self._end_requests()
        self._on_leave(generation)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)


def _line(connection: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n"):
        part = connection.recv(1 << 16)
        if not part:
            raise OSError("the agent hung up")
        data += part
    return bytes(data)


def _lines(connection: socket.socket) -> Iterator[Dict[str, Any]]:
    with contextlib.suppress(OSError, ValueError):
        for line in connection.makefile("rb"):
            yield json.loads(line)


def connect(generation: int, local_rank: int, on_leave: Callable[[int], None]) -> Optional[Agent]:
    """Return the agent of this node; None if there is none, or if its version differs."""
    path = os.environ.get("ELASTIC_AGENT_SOCKET")
    if not path:
        return None
    try:
        agent = Agent(path, generation, local_rank, on_leave)
        if not agent.refuses():
            return agent
        agent.gone.wait()  # _listen has printed the reason
        agent.close()
        return None
    except (OSError, ValueError) as error:
        say(f"this worker is started again when the world changes: {error}")
        return None


