import json
import os
import pickle
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

    def recorded(self, **recorders):
        """Start a worker whose torch has recorders: the source of what each of them dumps."""
        attributes = ", ".join(
            f"{name}=lambda includeStackTraces{parameters}: {dump}" for name, (parameters, dump) in recorders.items()
        )
        worker = self.start(
            "import pickle, sys, types\n"
            "def entry(seq, name, group='default_pg', p2p=False):\n"
            "    return {'collective_seq_id': seq, 'profiling_name': name, 'process_group': ('0', group), 'is_p2p': p2p}\n"
            "def dump(*entries): return pickle.dumps({'version': '2.10', 'entries': list(entries)}, protocol=2)\n"
            f"sys.modules['torch._C._distributed_c10d'] = types.SimpleNamespace({attributes})\n"
            "def stand(): print('up', flush=True); sys.stdin.read()\n"
            "stand()"
        )
        self.assertEqual(worker.stdout.readline(), "up\n")
        return worker

    def test_stacks_and_flight(self):
        entries = (
            "entry(3, 'reduce'), entry(7, 'gather'), entry(7, 'barrier'), entry(8, 'sub', group='1'), entry(9, 'send', p2p=True)"
        )
        self.recorded(_dump_fr_trace=("", f"dump({entries})"))
        self.assertTrue(stat.S_ISFIFO(os.stat(self.base + ".ask").st_mode))
        for _ in range(2):
            self.ask()
            self.assertIn(b"in stand", self.answer(".stacks"))
            self.assertEqual(len(pickle.loads(self.answer(".flight"))["entries"]), 5)
            self.assertEqual(json.loads(self.answer(".collective")), {"seq": 7, "name": "barrier"})
            os.remove(self.base + ".stacks")

    def test_the_recorder_of_the_backend(self):
        """The record of a job with NCCL is that of NCCL, and without one that of gloo."""
        for nccl, hooked, taken in (("nccl", "", "nccl"), ("", "hooked", "hooked"), ("", "", "gloo")):
            nccl, hooked, gloo = (f"dump(entry(1, '{x}'))" if x else "dump()" for x in (nccl, hooked, "gloo"))
            worker = self.recorded(
                _dump_nccl_trace=("", nccl),
                _dump_fr_trace=(", backend='gloo'", f"{hooked} if backend == 'nccl' else {gloo}"),
            )
            self.ask()
            self.answer(".stacks")
            self.assertEqual(json.loads(self.answer(".collective"))["name"], taken)
            worker.kill()
            for name in os.listdir(self.dir):
                os.remove(os.path.join(self.dir, name))

    def test_a_recorder_that_fails_or_tells_too_much(self):
        """What an earlier answer had does not stay."""
        for dump, last in (("1 / 0", b""), ("dump(entry(1, 'x' * (3 << 20), group='1'))", b"null")):
            worker = self.recorded(_dump_fr_trace=("", dump))
            for name in (".flight", ".collective"):
                with open(self.base + name, "w") as file:
                    file.write("old")
            self.ask()
            self.assertIn(b"Thread", self.answer(".stacks"))
            self.assertEqual(self.answer(".flight"), b"")
            self.assertEqual(self.answer(".collective"), last)
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
