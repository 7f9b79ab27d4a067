"""Ranks that train over gloo. At step AT rank BAD stands still in the way that HOW says, and the others wait for
it. Nothing in this script knows of Elastic but its progress file."""
import ctypes, json, os, signal, socket, subprocess, sys, threading, time

import torch
import torch.distributed as dist

how, bad, at = os.environ["HOW"], int(os.environ["BAD"]), int(os.environ["AT"])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
grads = torch.ones(1000)


def lock():
    mutex = threading.Lock()
    mutex.acquire()
    mutex.acquire()


def spin():
    while True:
        pass


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def kernel():
    """A child of vfork that lives keeps its parent in an uninterruptible wait, as a dead mount does."""
    libc = ctypes.CDLL(None)
    libc.syscall.restype = ctypes.c_long
    code = (b"\x48\xc7\xc0\x3a\x00\x00\x00\x0f\x05"  # vfork
            b"\x48\x85\xc0\x74\x01\xc3"  # the parent returns
            b"\x48\xc7\xc0\x22\x00\x00\x00\x0f\x05\xeb\xf5")  # the child pauses for ever
    import mmap
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_long)(address)()


def peer():
    """A service that this rank asks has died without a word."""
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname()).recv(1)


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        time.sleep(100000)


def load():
    next(iter(torch.utils.data.DataLoader(Slow(), num_workers=1)))


def branch():
    dist.barrier()


def skip():
    """This rank leaves out the collective, and waits in the next one."""
    dist.broadcast(torch.ones(1), 0)


def other():
    out = [torch.empty(1000) for _ in range(size)]
    dist.all_gather(out, grads)


def slow():
    time.sleep(100000)


progress = open(os.environ["ELASTIC_PROGRESS_FILE"], "a", buffering=1) if rank == 0 else None
for step in range(1, 100000):
    if rank == bad and step == at and int(os.environ["ELASTIC_GENERATION"]) == 1:
        if how == "late":
            time.sleep(float(os.environ["SECONDS"]))
        else:
            globals()[how]()
    dist.all_reduce(grads)
    grads.fill_(1)
    dist.broadcast(torch.ones(1), 0)
    if progress:
        progress.write(json.dumps({"step": step}) + "\n")
    time.sleep(0.05)
