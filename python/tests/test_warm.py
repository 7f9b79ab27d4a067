"""Workers that are started before their World is known, as the guardian drives them."""

import os
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

WARM = pathlib.Path(__file__).resolve().parent.parent / "warm"

LOOK = """
import os, sys
def look():
    frame = sys._getframe()
    depth = 0
    while frame.f_back:
        frame, depth = frame.f_back, depth + 1
    print(__name__, os.path.basename(__file__), sys.argv[1:], sys.path[0], sys.path[1:3], depth)
    print(sorted(os.environ.items()), sorted(os.listdir("/proc/self/fd")))
    print(sys.flags, sorted(vars(sys.modules["__main__"])), "sitecustomize" in sys.modules)
    for name in "comm", "oom_score_adj":
        print(open("/proc/self/" + name).read())
    print(os.getpriority(os.PRIO_PROCESS, 0), type(os.environ._data), os.getenv("VALUE"))
look()
"""


class Waiting:
    """A process that waits for its World in a directory of its own."""

    def __init__(self, test, files, kind="script", name="train.py", switches=(), **variables):
        self.dir = tempfile.TemporaryDirectory()
        test.addCleanup(self.dir.cleanup)
        for path, text in files.items():
            path = pathlib.Path(self.dir.name, path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        what = [name] if kind == "script" else ["-m", name]
        self.command = [sys.executable, *switches, *what, "--lr", "1"]
        self.environ = {"PATH": os.environ["PATH"], "PYTHONPATH": "/nowhere", "VALUE": "early", **variables}
        self.near, far = socket.socketpair()
        test.addCleanup(self.near.close)
        with far:
            hook = {"PYTHONPATH": f"{WARM}:{self.environ['PYTHONPATH']}", "ELASTIC_WARM": f"{far.fileno()}:{kind}:{name}"}
            self.process = self.start({**self.environ, **hook}, [far.fileno()])
        test.addCleanup(self.end)
        self.waits = self.near.recv(1) == b"w"

    def start(self, environ, fds):
        return subprocess.Popen(self.command, env=environ, pass_fds=fds, cwd=self.dir.name, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def hand(self, **variables):
        """Give it its World; returns what it wrote."""
        environ = {**self.environ, **variables}
        data = b"".join(f"{k}={v}".encode() + b"\0" for k, v in environ.items())
        self.near.sendall(len(data).to_bytes(4, "big") + data)
        if self.near.recv(1) == b"y":
            self.near.sendall(b"g")
        return self.process.communicate(timeout=60)[0]

    def cold(self, **variables):
        """Return the output of a process that is started now."""
        process = self.start({**self.environ, **variables}, [])
        return process.communicate(timeout=60)[0]


class WarmTest(unittest.TestCase):
    def same(self, files, **how):
        """The output is that of a process that is started now."""
        w = Waiting(self, files, **how)
        self.assertTrue(w.waits)
        warm, cold = w.hand(VALUE="late", RANK="1"), w.cold(VALUE="late", RANK="1")
        self.assertEqual(warm, cold)
        self.assertIn("late", warm)
        return warm

    def test_a_script_sees_no_difference(self):
        self.same({"train.py": LOOK})

    def test_it_waits_below_the_priority_that_it_was_started_with(self):
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        w = Waiting(self, {"train.py": LOOK})
        self.assertTrue(w.waits)
        if os.geteuid() == 0:  # only root may raise the priority again
            self.assertEqual(os.getpriority(os.PRIO_PROCESS, w.process.pid), min(19, ours + 10))
        self.assertIn(f"\n{ours} ", w.hand())

    def test_nor_with_switches(self):
        self.same({"train.py": LOOK}, switches=["-u", "-O", "-Xdev"])

    def test_nor_a_module(self):
        self.same({"pkg/__init__.py": "", "pkg/train.py": LOOK}, kind="module", name="pkg.train")
        self.same({"pkg/__init__.py": "", "pkg/__main__.py": LOOK}, kind="module", name="pkg")

    def test_nor_with_a_sitecustomize_of_its_own(self):
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        pathlib.Path(own.name, "sitecustomize.py").write_text("import sys\nsys.mine = 1\nprint('mine')\n")
        out = self.same({"train.py": "import sys\nprint(sys.mine)\n" + LOOK}, PYTHONPATH=own.name)
        self.assertTrue(out.startswith("mine\n1\n"), out)

    def test_a_traceback_is_the_same(self):
        w = Waiting(self, {"train.py": "import json\ndef f():\n    raise ValueError('x')\nf()\n"})
        self.assertEqual(w.hand(), w.cold())
        self.assertEqual(w.process.returncode, 1)

    def test_what_is_imported_early(self):
        # Extension modules of the standard library are seen in the process's memory.
        for name, script, early in [
            ("first", "import sqlite3", True),
            ("of a name", "from sqlite3 import dbapi2 as x", True),
            ("behind functions and constants", "A = 1\ndef f():\n    pass\nclass B:\n    x = 1\nimport sqlite3", True),
            ("optional", "try:\n    import sqlite3\nexcept ImportError:\n    sqlite3 = None", True),
            (
                "behind an optional one that is not there",
                "try:\n    import nowhere\nexcept ImportError:\n    x = 0\nimport sqlite3",
                True,
            ),
            ("by a module of the user", "import model", True),
            ("of the main script", "if __name__ == '__main__':\n    import sqlite3", True),
            ("behind a variable", "import os\nos.environ['X'] = '1'\nimport sqlite3", False),
            ("behind a call", "print()\nimport sqlite3", False),
            ("behind an attribute", "import json\njson.x = 1\nimport sqlite3", False),
            ("behind a module of the user that calls", "import calls\nimport sqlite3", False),
            ("behind a module that is not there", "import nowhere\nimport sqlite3", False),
            ("under a condition", "import sys\nif len(sys.argv) > 9:\n    import sqlite3", False),
            ("for types", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sqlite3", False),
            ("in a function", "def f():\n    import sqlite3", False),
        ]:
            with self.subTest(name):
                w = Waiting(self, {"train.py": script, "model/__init__.py": "from .net import Net",
                                   "model/net.py": "import sqlite3\nclass Net:\n    pass", "calls.py": "print()"})
                self.assertTrue(w.waits)
                maps = pathlib.Path(f"/proc/{w.process.pid}/maps").read_text()
                self.assertEqual("_sqlite3" in maps, early)

    def test_what_a_library_imports_later(self):
        for script, early in [("import torch", True), ("import torch\nimport os\nos.environ['TORCH_LOGS'] = 'x'", False)]:
            with self.subTest(script):
                path = pathlib.Path(self.library(""), "torch")
                path.mkdir()
                (path / "__init__.py").write_text("")
                (path / "_dynamo.py").write_text("import sqlite3")
                w = Waiting(self, {"train.py": script}, PYTHONPATH=str(path.parent))
                self.assertTrue(w.waits)
                maps = pathlib.Path(f"/proc/{w.process.pid}/maps").read_text()
                self.assertEqual("_sqlite3" in maps, early)

    def test_the_users_code_does_not_run_early(self):
        w = Waiting(self, {"train.py": "import model\nopen('script', 'w')", "model.py": "open('model', 'w')"})
        self.assertTrue(w.waits)
        self.assertEqual(sorted(os.listdir(w.dir.name)), ["model.py", "train.py"])
        w.hand()
        self.assertIn("script", os.listdir(w.dir.name))

    def test_it_ends_without_its_world(self):
        for data in b"", b"\0\0", b"\0\0\1\0VALUE=1\0":
            w = Waiting(self, {"train.py": "open('ran', 'w')"})
            w.near.sendall(data)
            w.near.close()
            self.assertEqual(w.process.wait(60), 0)
            self.assertNotIn("ran", os.listdir(w.dir.name))

    def test_it_ends_where_it_is_not_told_to_begin(self):
        w = Waiting(self, {"train.py": "open('ran', 'w')"})
        w.near.sendall((2).to_bytes(4, "big") + b"A\0")
        self.assertEqual(w.near.recv(1), b"y")
        w.near.close()
        self.assertEqual(w.process.wait(60), 0)
        self.assertNotIn("ran", os.listdir(w.dir.name))

    def library(self, text):
        """A directory of installed modules with one of them."""
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        path = pathlib.Path(own.name, "site-packages")
        path.mkdir()
        (path / "lib.py").write_text(text)
        return str(path)

    def test_a_variable_that_a_library_read(self):
        for read in "os.environ['VALUE']", "os.environ.get('VALUE')", "'VALUE' in os.environ", "dict(os.environ)":
            with self.subTest(read):
                path = self.library(f"import os\nx = {read}")
                w = Waiting(self, {"train.py": "import lib\nprint('ran')"}, PYTHONPATH=path)
                self.assertTrue(w.waits)
                self.assertEqual(w.hand(VALUE="late"), "")
                w = Waiting(self, {"train.py": "import lib\nprint('ran')"}, PYTHONPATH=path)
                self.assertEqual(w.hand(), "ran\n")

    def test_a_variable_that_a_library_set(self):
        for text in "os.environ['CACHE'] = '/tmp/x'", "os.environ.setdefault('CACHE', '/tmp/x')", "os.environ.pop('FIXED')":
            with self.subTest(text):
                path = self.library(f"import os\n{text}\nx = 'CACHE' in os.environ")
                look = "import lib, os\nprint('ran', lib.x, sorted(os.environ.items()), os.getenv('CACHE'))"
                w = Waiting(self, {"train.py": look}, PYTHONPATH=path, FIXED="1")
                warm, cold = w.hand(VALUE="late"), w.cold(VALUE="late")
                self.assertEqual(warm, cold)
                self.assertIn("ran", warm)

    def test_what_a_library_writes_comes_with_the_worker(self):
        path = self.library("import os, sys\nprint('one')\nsys.stderr.write('two\\n')\nos.write(1, b'three\\n')")
        w = Waiting(self, {"train.py": "import lib\nprint('ran')"}, switches=["-u"], PYTHONPATH=path)
        self.assertTrue(w.waits)
        self.assertEqual(select.select([w.process.stdout], [], [], 0)[0], [])
        self.assertEqual(w.hand(), "one\ntwo\nthree\nran\n")

    def test_a_library_that_runs_the_users_modules(self):
        path = self.library("import settings")
        w = Waiting(self, {"train.py": "import lib", "settings.py": "x = 1"}, PYTHONPATH=path)
        self.assertFalse(w.waits)

    def test_a_library_that_ends_the_process(self):
        path = self.library("raise SystemExit(3)")
        w = Waiting(self, {"train.py": "import lib"}, PYTHONPATH=path)
        self.assertFalse(w.waits)
        self.assertEqual(w.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
