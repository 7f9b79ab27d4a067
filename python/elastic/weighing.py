"""Exact weights of losses that are means over anything but samples, such as tokens."""

from __future__ import annotations

from typing import Any, List, Sequence

from .collective import gather
from .environment import world


def weight(count: Any) -> float:
    """The factor on the mean loss of this rank's tokens, of which there are `count` in the step at hand. With it the
    plain average over ranks is the mean over all tokens of all ranks. Call it on every rank, once in each step."""
    return weights([count])[0]


def weights(counts: Sequence[Any]) -> List[float]:
    """The same for the micro-batches of a step, whose gradients are added up."""
    mine = [float(count) for count in counts]
    total = sum(gather(sum(mine)))
    return [count * world().size / total if total else 0.0 for count in mine]
