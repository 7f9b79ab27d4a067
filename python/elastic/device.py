"""GPUs: the device of a rank, and the gate that each step passes before it counts. Never run on a GPU.

NCCL ends a collective that is aborted as if it had succeeded. Kernels that are queued behind it change the state by
gradients that were not reduced, and no error says so. So a boundary counts only if all work of the GPU until there has
ended and after that neither the world was left nor a group has failed. Otherwise the rank goes back to the boundary
before. The gate is closed before the first group is aborted.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from . import torch_private
from .leaving import WorldChanged

SWITCH = "ELASTIC_NCCL_IN_PLACE"
"""Lets workers with NCCL stay, if its value is UNMEASURED: for `make gpu` alone."""
UNMEASURED = "unmeasured"
ABORT_LIMIT = 5.0
"""Seconds that an abort may take; some versions of NCCL have aborts that never return. Fewer than the agent gives a
worker to leave its world, so that the reason is said."""


def is_nccl(backend: str) -> bool:
    return "nccl" in backend.lower()


def may_stay() -> bool:
    """Whether workers with NCCL stay, although this was never seen right on a GPU. Torch before 2.6 cannot abort
    each group."""
    import torch.distributed as dist

    return os.environ.get(SWITCH) == UNMEASURED and hasattr(dist.ProcessGroup, "abort")


def choose(local_rank: int) -> Dict[str, Any]:
    """Make the GPU of this rank the one at hand. Return the argument that binds the process group to it."""
    import torch

    if not torch.cuda.is_available():
        return {}
    index = local_rank % torch.cuda.device_count()
    torch.cuda.set_device(index)
    knows = inspect.signature(torch.distributed.init_process_group).parameters
    return {"device_id": torch.device("cuda", index)} if "device_id" in knows else {}


def finish() -> None:
    """Wait until the GPU has done what was given to it."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Gate:
    """Of one rank. Groups are those of its world."""

    def __init__(self, groups: Callable[[], List[Any]]) -> None:
        self._groups = groups
        self._closed = threading.Event()
        self._lock = threading.Lock()  # guards what follows
        self._aborts: List[threading.Thread] = []
        self._since = 0.0

    def open(self) -> None:
        """A world begins."""
        self._closed.clear()

    def check(self) -> None:
        """Called at a boundary, before it counts. What an aborted collective has left is in the state only when the
        GPU is through, so the gate is looked at after that."""
        finish()
        if self._closed.is_set():
            raise WorldChanged
        for group in self._groups():
            error = error_of(group)
            if error is not None:
                raise RuntimeError(f"NCCL: a process group has failed ({error}); the step at hand does not count")

    def abort(self) -> None:
        """The world is over: begin to end all its collectives, once. Each group has a thread, because the abort of one
        may wait until the GPU has left a collective of another."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            self._since = time.monotonic()
            self._aborts = [
                threading.Thread(target=_abort, args=(group,), name="elastic-abort", daemon=True) for group in self._groups()
            ]
            for one in self._aborts:
                one.start()

    def aborting(self) -> Optional[float]:
        """Seconds since the aborts began; None: all have returned, or none has begun."""
        with self._lock:
            return time.monotonic() - self._since if any(one.is_alive() for one in self._aborts) else None

    def wait(self) -> None:
        """Wait until the aborts have returned: no group is destroyed before."""
        for one in self._aborts:
            one.join()


def _abort(group: Any) -> None:
    with contextlib.suppress(Exception):  # it is being made, or has ended
        group.abort()


def error_of(group: Any) -> Optional[str]:
    """What a group of NCCL says that has happened to it; None: nothing, or torch cannot say."""
    try:
        error = torch_private.cuda_backend(group, sys.modules["torch"].device("cuda")).get_error()
    except Exception:  # this torch or this backend does not tell
        return None
    name = str(getattr(error, "name", error)).rpartition(".")[2]
    return None if name == "SUCCESS" else name


def outlives() -> Optional[str]:
    """What the process has made that keeps the communicators of a world that is over; None: nothing."""
    if torch_private.has_symmetric_memory():
        return "symmetric memory"
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    for name, what in (("CUDAGraph", "a CUDA graph"), ("MemPool", "a pool of registered memory")):
        kind = getattr(cuda, name, None)
        if isinstance(kind, type) and any(issubclass(type(one), kind) for one in gc.get_objects()):
            return what
    return None
