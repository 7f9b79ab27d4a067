import os
import stat
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

from elastic import evidence


class EvidenceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = os.path.join(folder.name, "evidence")

    def answer(self, name):
        path = self.base + name
        limit = time.monotonic() + 30
        while not os.path.exists(path) and time.monotonic() < limit:
            time.sleep(0.01)
        with open(path, "rb") as file:
            return file.read()

    def ask(self):
        with open(self.base + ".ask", "wb", buffering=0) as pipe:
            pipe.write(b"1")

    def test_stacks_and_flight(self):
        recorder = types.SimpleNamespace(_dump_fr_trace_json=lambda: b'{"entries":[]}')
        with mock.patch.dict(sys.modules, {"torch._C._distributed_c10d": recorder}):
            self.assertTrue(evidence.listen(self.base))
            self.assertTrue(stat.S_ISFIFO(os.stat(self.base + ".ask").st_mode))
            self.ask()
            self.assertIn(b"in test_stacks_and_flight", self.answer(".stacks"))
            self.assertEqual(self.answer(".flight"), b'{"entries":[]}')
            os.remove(self.base + ".stacks")
            self.ask()
            self.assertIn(b"in test_stacks_and_flight", self.answer(".stacks"))

    def test_a_recorder_that_fails_or_tells_too_much(self):
        def fail():
            raise RuntimeError("no recorder")

        for dump in fail, lambda: b"x" * (evidence.LARGEST + 1):
            with mock.patch.dict(sys.modules, {"torch._C._distributed_c10d": types.SimpleNamespace(_dump_fr_trace_json=dump)}):
                self.assertIsNone(evidence._flight())

    def test_only_one_process_answers(self):
        self.assertTrue(evidence.listen(self.base))
        self.assertFalse(evidence.listen(self.base))

    def test_nothing_without_a_launcher(self):
        with mock.patch.dict(os.environ, {"ELASTIC_EVIDENCE": ""}):
            self.assertFalse(evidence.listen())


if __name__ == "__main__":
    unittest.main()
