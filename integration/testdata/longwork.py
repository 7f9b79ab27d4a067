"""Ranks that train over gloo. At step 80 they do long work of the kind WORK for SECONDS, of which Elastic is not
told, and train on. It is work of rank 1, for which the others wait in a collective, or of all (epoch)."""
import datetime, json, os, pdb, socket, subprocess, sys, time

import torch
import torch.distributed as dist

work, seconds = os.environ["WORK"], float(os.environ["SECONDS"])
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(hours=3))
rank = dist.get_rank()
grads = torch.ones(1000)


def compute():
    until = time.time() + 0.1
    while time.time() < until:
        grads.square()
    time.sleep(0.15)


def validation(end):
    while time.time() < end:
        compute()


def checkpoint(end):
    while time.time() < end:
        with open("model.pt", "wb") as file:
            torch.save(torch.ones(250000), file)
            file.flush()
            os.fsync(file.fileno())
        time.sleep(0.2)


def compiler(end):
    """The processor time is that of a child."""
    subprocess.run([sys.executable, "-c", "import time\nwhile time.time() < %f:\n sum(range(1000000))" % end])


def download(end):
    server = socket.create_server(("127.0.0.1", 0))
    here = socket.create_connection(server.getsockname())
    there = server.accept()[0]
    while time.time() < end:
        there.sendall(b"x" * 50000)
        left = 50000
        while left:
            left -= len(here.recv(left))
        time.sleep(0.2)


def epoch(end):
    """All ranks wait for another program, and none differs."""
    while time.time() < end:
        time.sleep(1)


def prompt(end):
    """A breakpoint, at which a person types `c` in the end."""
    asks, answers = os.pipe()
    subprocess.Popen([sys.executable, "-c", "import os, time\ntime.sleep(%f)\nos.write(%d, b'c\\n')" %
                      (end - time.time(), answers)], pass_fds=[answers])
    pdb.Pdb(stdin=os.fdopen(asks), stdout=open(os.devnull, "w"), nosigint=True).set_trace()


def attached(end):
    """Another process traces this one, as gdb does, and holds it."""
    subprocess.Popen([sys.executable, "-c", "import ctypes, os, time\npid = %d\nlibc = ctypes.CDLL(None)\n"
                      "assert libc.ptrace(16, pid, 0, 0) == 0\nos.waitpid(pid, 0x40000000)\ntime.sleep(%f)\n"
                      "libc.ptrace(17, pid, 0, 0)" % (os.getpid(), end - time.time())])
    while time.time() < end:
        time.sleep(0.1)


progress = open(os.environ["ELASTIC_PROGRESS_FILE"], "a", buffering=1) if rank == 0 else None
for step in range(1, 120):
    if step == 80 and (rank == 1 or work == "epoch"):
        globals()[work](time.time() + seconds)
    dist.all_reduce(grads)
    grads.fill_(1)
    if progress:
        progress.write(json.dumps({"step": step}) + "\n")
    time.sleep(0.1)
