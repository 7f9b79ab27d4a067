"""Agreement between the ranks, through the framework that the script uses.

Nothing here imports a framework. A framework that the script did not import is not in use.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, List, Optional, Tuple

from . import torch_private
from .environment import world

INTERVAL = 0.1
"""Seconds between two votes, about. A vote takes less than a millisecond."""
MOST_STEPS = 100
"""Steps between two votes at most."""


class Vote:
    """Turns the wish of any rank into the same answer on every rank at the same step.

    With torch a vote is an asynchronous all-reduce of two numbers. One step begins it, and
    the next step reads its result. By then every rank has joined it, because all ranks
    exchange the gradients of that step. The second number is the time of a step. When steps
    are short, only some of them have a vote, the same ones on every rank.
    """

    def __init__(self) -> None:
        self._pending: Optional[Tuple[Any, Any]] = None
        self._broken = False
        self._group: Any = None
        self._generation: Optional[int] = None
        self._skip = 0
        self._steps = 0
        self._since = 0.0

    def cast(self, asked: Callable[[], bool], size: int) -> bool:
        """Vote for this rank; True on every rank at the same step. asked returns this rank's wish. It is
        called only in steps that have a vote, and other steps cost almost nothing."""
        if self._generation != world().generation:  # a vote that began in another world counts only there
            self._pending, self._broken, self._group, self._skip = None, False, None, 0
            self._generation = world().generation
        self._steps += 1
        if self._skip > 0:
            self._skip -= 1
            return False
        if size == 1:
            return asked()
        try:
            if torch_distributed() is not None:
                return self._torch(asked)
            if paddle_distributed() is not None:
                return _paddle(asked())
        except Exception:  # a peer is lost: the script's own collective says so
            self._pending, self._broken = None, True
        return asked()

    def _torch(self, asked: Callable[[], bool]) -> bool:
        if self._broken:
            return False
        if self._pending is not None:
            work, numbers = self._pending
            self._pending = None
            work.wait()
            wished, step_time = numbers.tolist()
            if wished:
                return True
            self._skip = int(min(INTERVAL / max(step_time, 1e-9), MOST_STEPS))
            if self._skip > 0:
                self._skip -= 1
                return False
        self._begin(asked())
        return False

    def _begin(self, wish: bool) -> None:
        import torch

        dist = torch.distributed
        if self._group is None:
            self._group = side_group()
        now = time.monotonic()
        step_time = (now - self._since) / self._steps if self._since else INTERVAL
        self._steps, self._since = 0, now
        numbers = torch.tensor([float(wish), step_time], dtype=torch.float64)
        work = dist.all_reduce(numbers, op=dist.ReduceOp.MAX, group=self._group, async_op=True)
        self._pending = (work, numbers)


def share_newest(step: int, content: Any) -> Any:
    """Give every rank the content of the lowest rank with the largest step. A rank that has
    nothing passes -1. Without a process group each rank keeps its own."""
    steps = gather(step)
    newest = max(steps)
    if min(steps) == newest:
        return content
    box = [content if step == newest else None]
    torch_distributed().broadcast_object_list(box, src=steps.index(newest), group=side_group())
    return box[0]


def gather(value: Any) -> List[Any]:
    """The values of all ranks, in their order, on every rank. Without a process group of torch
    each rank gets only its own value."""
    dist = torch_distributed()
    if dist is None or dist.get_world_size() == 1:
        return [value]
    values: List[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value, group=side_group())
    return values


def side_group() -> Any:
    """A gloo group of all ranks beside the script's own: it carries numbers of the CPU, and
    the order of its collectives is independent of the gradients. Each call returns the same one."""
    global _side
    dist = torch_distributed()
    default = torch_private.default_group(dist)
    generation = world().generation  # torch 2.15 gives one group the members of another world
    if _side is None or _side[0] is not default or _side[1] != generation:
        _side = (default, generation, dist.new_group(backend="gloo"))
    return _side[2]


def forget_side() -> Any:
    """Make the next call of side_group create a new group. Return the old one."""
    global _side
    side, _side = _side, None
    return side[2] if side is not None else None


_side: Optional[Tuple[Any, int, Any]] = None


def torch_distributed() -> Any:
    """torch.distributed, if the script has a process group; else None."""
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def paddle_distributed() -> Any:
    """paddle.distributed, if the script has a process group; else None."""
    paddle = sys.modules.get("paddle")
    dist = getattr(paddle, "distributed", None)
    if dist is None or not dist.is_initialized():
        return None
    return dist


def _paddle(wish: bool) -> bool:
    import paddle

    flag = paddle.to_tensor([int(wish)], dtype="int32")
    paddle.distributed.all_reduce(flag, op=paddle.distributed.ReduceOp.MAX)
    return bool(flag.item())
