"""The connections of a process group, by real sockets."""

import contextlib
import socket
import threading
import time
import types
import unittest
import unittest.mock

from elastic import blocked, connections


class ConnectionsTest(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        before = connections.listening()
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.ports = connections.listening() - before
        self.theirs = stack.enter_context(socket.create_connection(listener.getsockname()))
        self.ours = stack.enter_context(listener.accept()[0])
        self.mine = connections.Mine(self.ports, set(), set())

    def test_a_connection_that_is_shut_ends_and_what_is_written_goes_through(self):
        self.assertEqual(connections.shut(self.mine), 1)
        self.assertEqual(self.ours.recv(1), b"")
        self.ours.sendall(b"payload")
        self.assertEqual(self.theirs.recv(16), b"payload")

    def test_others_are_left_alone(self):
        self.assertEqual(connections.shut(connections.Mine(set(), set(), set())), 0)
        self.assertEqual(connections.shut(connections.Mine(set(), self.ports, set())), 1)  # the other end is here, too

    def test_quiet(self):
        while not connections.quiet(self.mine):
            time.sleep(0.001)
        with unittest.mock.patch.object(connections, "QUIET", 60_000):
            self.theirs.sendall(b"data")
            self.ours.recv(16)
            self.assertFalse(connections.quiet(self.mine))
        self.assertTrue(connections.quiet(connections.Mine(set(), set(), set())))


class WatchTest(unittest.TestCase):
    """A thread that waits in a function of a module of torch's."""

    def thread(self, module, body):
        scope = {"body": body, "__name__": module}
        exec("def run():\n    body()\n", scope)
        thread = threading.Thread(target=scope["run"], daemon=True)
        thread.start()
        return thread

    def test_a_thread_that_waits_in_torch_hangs(self):
        lock = threading.Lock()
        lock.acquire()
        thread = self.thread("torch.autograd.graph", lock.acquire)
        self.addCleanup(lock.release)
        watch = blocked.Watch(thread.ident)
        with unittest.mock.patch.object(blocked, "LASTING", 0.01):
            while not watch.hangs():
                time.sleep(0.001)

    def test_a_thread_that_waits_elsewhere_does_not(self):
        lock = threading.Lock()
        lock.acquire()
        thread = self.thread("__main__", lock.acquire)
        self.addCleanup(lock.release)
        self.assertFalse(blocked.in_torch(thread.ident))

    def test_a_thread_that_computes_does_not(self):
        used = iter(range(100))
        with unittest.mock.patch.object(blocked, "in_torch", lambda thread: True), unittest.mock.patch.object(
            blocked, "time", types.SimpleNamespace(
                clock_gettime=lambda clock: next(used), pthread_getcpuclockid=lambda thread: 0, monotonic=time.monotonic
            )
        ), unittest.mock.patch.object(blocked, "LASTING", 0):
            watch = blocked.Watch(0)
            for _ in range(3):
                watch.hangs()
            self.assertIsNotNone(watch._since)


if __name__ == "__main__":
    unittest.main()
