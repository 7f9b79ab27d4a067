"""Worlds for tests: any rank of any world, in one process."""

from __future__ import annotations

import contextlib
from typing import Dict, Iterator, List

from elastic import environment
from elastic.environment import World


def plan(rank: int, size: int, global_batch: int, accumulation: int = 1) -> Dict[str, str]:
    """The variables that elastic run gives a rank."""
    micro = global_batch // accumulation
    share = len(range(rank, micro, size))
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "ELASTIC_GLOBAL_BATCH_SIZE": str(global_batch),
        "ELASTIC_BATCH_SIZE": str(share),
        "ELASTIC_GRAD_ACCUM_STEPS": str(accumulation),
        "ELASTIC_LOSS_WEIGHT": repr(share * size / micro),
    }


def world_of(size: int, global_batch: int, accumulation: int = 1) -> List[World]:
    """All ranks of a world."""
    return [environment.read(plan(rank, size, global_batch, accumulation)) for rank in range(size)]


@contextlib.contextmanager
def being(world: World) -> Iterator[World]:
    """Be a rank of a world, as elastic.world() sees it."""
    before = environment._current
    environment._current = world
    try:
        yield world
    finally:
        environment._current = before
