import os
import stat
import subprocess
import sys
import tempfile
import time
import unittest

ABOVE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# as the launcher writes it, or in the source
WATCH = next(p for p in (os.path.join(ABOVE, ".watch"), os.path.join(ABOVE, "watch")) if os.path.isdir(p))


class WatchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        self.base = os.path.join(self.dir, "evidence")

    def start(self, script, path="", **variables):
        """Start a worker as the agent does; it writes "up" when it is ready."""
        environ = {"PATH": os.environ["PATH"], "ELASTIC_EVIDENCE": self.base, **variables}
        environ["PYTHONPATH"] = os.pathsep.join(p for p in (WATCH, path) if p)
        worker = subprocess.Popen(
            [sys.executable, "-c", script], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(worker.communicate)
        self.addCleanup(worker.kill)
        return worker

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
        worker = self.start(
            "import sys, types\n"
            "sys.modules['torch._C._distributed_c10d'] = types.SimpleNamespace("
            "_dump_fr_trace_json=lambda: b'{\"entries\":[]}')\n"
            "def stand(): print('up', flush=True); sys.stdin.read()\n"
            "stand()"
        )
        self.assertEqual(worker.stdout.readline(), "up\n")
        self.assertTrue(stat.S_ISFIFO(os.stat(self.base + ".ask").st_mode))
        for _ in range(2):
            self.ask()
            self.assertIn(b"in stand", self.answer(".stacks"))
            self.assertEqual(self.answer(".flight"), b'{"entries":[]}')
            os.remove(self.base + ".stacks")

    def test_the_recorder_of_the_backend(self):
        """The record of a job with NCCL is that of NCCL, and without one that of gloo."""
        empty = 'b\'{"version":"2.10"}\''
        for nccl, hooked, taken in (("nccl", empty, b"nccl"), (empty, "hooked", b"hooked"), (empty, empty, b"gloo")):
            nccl, hooked, gloo = (x if x == empty else f"""b'{{"entries":["{x}"]}}'""" for x in (nccl, hooked, "gloo"))
            worker = self.start(
                "import sys, types\n"
                "sys.modules['torch._C._distributed_c10d'] = types.SimpleNamespace("
                f"_dump_nccl_trace_json=lambda: {nccl}, "
                f"_dump_fr_trace_json=lambda backend='gloo': {hooked} if backend == 'nccl' else {gloo})\n"
                "print('up', flush=True); sys.stdin.read()"
            )
            self.assertEqual(worker.stdout.readline(), "up\n")
            self.ask()
            self.answer(".stacks")
            self.assertEqual(self.answer(".flight"), b'{"entries":["%s"]}' % taken)
            worker.kill()
            for name in os.listdir(self.dir):
                os.remove(os.path.join(self.dir, name))

    def test_a_recorder_that_fails_or_tells_too_much(self):
        for dump in ("1 / 0", "b'\"entries\"' + b'x' * (3 << 20)"):
            worker = self.start(
                "import sys, types\n"
                f"sys.modules['torch._C._distributed_c10d'] = types.SimpleNamespace(_dump_fr_trace_json=lambda: {dump})\n"
                "print('up', flush=True); sys.stdin.read()"
            )
            self.assertEqual(worker.stdout.readline(), "up\n")
            self.ask()
            self.assertIn(b"Thread", self.answer(".stacks"))
            self.assertFalse(os.path.exists(self.base + ".flight"))
            worker.kill()
            for name in (".ask", ".stacks"):
                os.remove(self.base + name)

    def test_only_the_worker_answers(self):
        """A process that the worker starts gets a path without the directory, and starts no thread."""
        look = "import os, threading; print(threading.active_count(), os.environ['PYTHONPATH'], flush=True)"
        worker = self.start(f"import subprocess, sys\n{look}\nsubprocess.run([sys.executable, '-c', {look!r}])", "/mine")
        self.assertEqual(worker.communicate()[0], "2 /mine\n1 /mine\n")

    def test_a_sitecustomize_of_the_user(self):
        with open(os.path.join(self.dir, "sitecustomize.py"), "w") as file:
            file.write("import sys\nsys.mine = 'mine'\n")
        worker = self.start("import sitecustomize, sys; print(sys.mine, sitecustomize.__file__)", self.dir)
        self.assertEqual(worker.communicate()[0], f"mine {self.dir}/sitecustomize.py\n")

    def test_nothing_without_a_launcher(self):
        look = "import sys, threading; print(threading.active_count(), any('watch' in p for p in sys.path))"
        worker = self.start(look, ELASTIC_EVIDENCE="")
        self.assertEqual(worker.communicate()[0], "1 False\n")
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    unittest.main()
