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
from .errors import say
from .leaving import WorldChanged
from .patience import Pace, end_after, look_after

SWITCH = "ELASTIC_NCCL_IN_PLACE"
"""Lets workers with NCCL stay, if its value is UNMEASURED: for `make gpu` alone."""
UNMEASURED = "unmeasured"
ABORT_LIMIT = 5.0
"""Seconds that an abort may take; some versions of NCCL have aborts that never return. Fewer than the agent gives a
worker to leave its world, so that the reason is said."""

LOOK = 1.0
"""Seconds between two looks at how long a step takes."""


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
        self._pace = Pace()
        self._lock = threading.Lock()  # guards what follows
        self._closed = threading.Event()  # one for each world
        self._closed.set()
        self._failed: Optional[str] = None  # why this rank has closed it
        self._passed = 0.0  # when the last boundary was
        self._waits: Optional[float] = None  # since when this rank waits for its GPU at a boundary
        self._aborts: List[threading.Thread] = []
        self._since = 0.0

    def open(self) -> None:
        """A world begins."""
        self._pace.begin()
        with self._lock:
            self._closed, self._failed, self._passed = threading.Event(), None, time.monotonic()
            args = (self._closed,)
        threading.Thread(target=self._watch, args=args, name="elastic-gate", daemon=True).start()

    def close(self) -> None:
        """No world follows."""
        self._closed.set()

    def patience(self) -> float:
        """Seconds for which a rank waits for the others."""
        return end_after(self._pace.usual())

    def check(self) -> None:
        """Called at a boundary, before it counts. What an aborted collective has left is in the state only when the
        GPU is through, so the gate is looked at after that."""
        self._waits = time.monotonic()
        try:
            finish()
        finally:
            self._waits = None
        if self._closed.is_set() and self._failed is None:
            raise WorldChanged
        failed = self._failed or self._error()
        if failed is not None:
            raise RuntimeError(f"NCCL: {failed}; the step at hand does not count")
        self._pace.step()
        self._passed = time.monotonic()

    def _error(self) -> Optional[str]:
        errors = [error_of(group) for group in self._groups()]
        return next((f"a process group has failed ({error})" for error in errors if error is not None), None)

    def _watch(self, closed: threading.Event) -> None:
        """End a step that nothing else ends: the agent says that a node is lost, and not that its network is."""
        while not closed.wait(LOOK):
            failed = self.overdue(time.monotonic())
            if failed is not None:
                self._end(closed, failed)
                self._leave(failed)

    def overdue(self, now: float) -> Optional[str]:
        """Why the step at hand is to be ended; None: it is not."""
        usual = self._pace.usual()
        if self._waits is not None and now - self._waits > end_after(usual):
            return f"no collective has ended for {now - self._waits:.0f} s"
        return self._error() if now - self._passed > look_after(usual) else None

    def _leave(self, failed: str) -> None:
        """End this process if the aborts do not free it."""
        limit = time.monotonic() + ABORT_LIMIT
        for one in self._aborts:
            one.join(max(0.0, limit - time.monotonic()))
        if self.aborting() is not None:
            why = f"NCCL: {failed}, and the abort has not returned in {ABORT_LIMIT:g} s: this worker ends"
            say(why)
            os._exit(1)

    def abort(self) -> None:
        """The world is over: begin to end all its collectives, once. Each group has a thread, because the abort of one
        may wait until the GPU has left a collective of another."""
        self._end(self._closed, None)

    def _end(self, closed: threading.Event, failed: Optional[str]) -> None:
        """End the world of an event, unless that was done. failed: why, if this rank ends it."""
        with self._lock:
            if closed.is_set() or closed is not self._closed:
                return
            self._failed = failed
            closed.set()
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
