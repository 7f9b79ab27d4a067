"""Nodes of one machine: agents with their workers, each a process of its own, in a directory of its own."""

import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 120.0

Record = collections.namedtuple("Record", "generation rank size pid step time")


class Failed(Exception):
    """A check that did not hold, or something that did not come."""


class Over(Exception):
    """The time of a part is over."""


def until(what, look, limit=LIMIT):
    """Wait until look() returns something, and return that."""
    end = time.monotonic() + limit
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"in {limit:.0f} s it was not seen that {what}")
        time.sleep(0.02)


def descendants(pid):
    """A process and all below it."""
    children = collections.defaultdict(list)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                children[int(file.read().rpartition(")")[2].split()[1])].append(int(name))
        except OSError:
            continue  # it has ended
    found = [pid]
    for one in found:
        found += children[one]
    return found


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Bed:
    """A directory, the environment of all processes, and the processes."""

    def __init__(self, programs, cards, **variables):
        # Short: the path of a socket has a limit.
        self.root = tempfile.mkdtemp(prefix="eg", dir=os.environ.get("GPU_TMP", "/tmp"))
        self.work = os.path.join(self.root, "work")
        for name in ("work", "run"):
            os.mkdir(os.path.join(self.root, name), 0o700)
        self.programs, self.cards, self.nodes = programs, cards, {}
        self.environ = {
            "PATH": f"{programs}:{os.environ['PATH']}", "HOME": self.root, "TMPDIR": self.root,
            "XDG_RUNTIME_DIR": os.path.join(self.root, "run"), "XDG_STATE_HOME": os.path.join(self.root, "state"),
            "ELASTICD_IDLE": "5s", "OMP_NUM_THREADS": "1", **variables,
        }
        for name in ("LD_LIBRARY_PATH", "CUDA_HOME", "PYTHONHOME"):
            if name in os.environ:
                self.environ[name] = os.environ[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """End all processes. It may be called again."""
        for process in self.nodes.values():
            send(descendants(process.pid), signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    def of_node(self, name):
        """Several ranks of NCCL share a card only if each believes in a machine of its own. With a card for each rank
        nothing is set but the card."""
        if not self.cards:
            return {}
        index = len(self.nodes) % self.cards
        own = {"CUDA_VISIBLE_DEVICES": str(index)}
        if self.cards < 3:
            own.update(NCCL_HOSTID=name, NCCL_NET="Socket", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo")
        return own

    def start(self, name, *command, **variables):
        """Start a process, whose output goes to files with its name."""
        with open(self.path(f"{name}.out"), "a") as out, open(self.path(f"{name}.err"), "a") as err:
            self.nodes[name] = subprocess.Popen(
                command, cwd=self.work, env={**self.environ, **self.of_node(name), **variables}, stdout=out, stderr=err,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )
        return self.nodes[name]

    def up(self, name, flags, program, **variables):
        """Start a node."""
        worker = [sys.executable, os.path.join(HERE, "work.py"), program]
        return self.start(name, os.path.join(self.programs, "elastic"), "run", f"--node={name}", "--job-id=x", *flags, *worker,
                          **variables)

    def path(self, name):
        return os.path.join(self.work, name)

    def read(self, name):
        try:
            with open(self.path(name)) as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def write(self, name, text=""):
        with open(self.path(name), "w") as file:
            file.write(text)

    def records(self):
        """The steps of all ranks, in the order in which they were made."""
        lines = self.read("records").rpartition("\n")[0].splitlines()
        fields = [line.split() for line in lines]
        return [Record(*map(int, f[:5]), float(f[5])) for f in fields if len(f) == 6]

    def ask(self, *arguments):
        """What `elastic` says, as JSON: one value, or one a line."""
        command = [os.path.join(self.programs, "elastic"), *arguments, "-o", "json"]
        done = subprocess.run(command, cwd=self.work, env=self.environ, capture_output=True, text=True, timeout=60)
        try:
            if arguments[0] == "events":
                return [json.loads(line) for line in done.stdout.splitlines()]
            return json.loads(done.stdout)
        except ValueError:
            return None

    def kill(self, name, with_workers=False):
        """End an agent by SIGKILL; its guardian ends the workers, where there is one."""
        process = self.nodes.pop(name)
        send(descendants(process.pid) if with_workers else [process.pid], signal.SIGKILL)
        process.wait()

    def ends(self, name, limit=LIMIT):
        """Wait until a process has ended with 0."""
        process = self.nodes[name]
        until(f"{name} ends", lambda: process.poll() is not None, limit)
        if process.returncode != 0:
            raise Failed(f"{name} has ended with {process.returncode}: {self.read(name + '.err')[-600:]}")
