"""The safety net: ranks compare their states at the first step of each world, and again so seldom that it costs
less than a two-hundredth of the time."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, List, Tuple

from . import contents, fingerprint
from .collective import gather, side_group, torch_distributed
from .environment import world
from .errors import ElasticError

SHARE = 0.005
"""Part of the time that comparing may take."""
SELDOM = 1000
"""Steps between two comparisons at most."""
EXCHANGE = 500
"""Microseconds that the exchange of one comparison takes, about."""


class Agreement:
    """The comparisons of one State."""

    def __init__(self) -> None:
        self._generation = 0
        self._pause = 0  # boundaries until the next comparison
        self._since: Tuple[int, float] = (0, 0.0)  # boundaries since the last one, and its time

    def check(self, values: Dict[str, Any], place: Tuple[int, int]) -> None:
        """Compare if it is time, on all ranks at the same boundary. A difference ends training by name."""
        if self._generation != world().generation:
            self._generation, self._pause, self._since = world().generation, 0, (0, 0.0)
        self._since = (self._since[0] + 1, self._since[1])
        if world().size == 1 or self._since[0] <= self._pause:
            return
        if torch_distributed() is None:
            _must_be_joined(values)
            return
        began = time.monotonic()
        mine = fingerprint.of(values, place)
        took = time.monotonic() - began
        step_time = (began - self._since[1]) / self._since[0] if self._since[1] else 0.0
        same, self._pause = self._compare(mine, took, step_time)
        self._since = (0, time.monotonic())
        if not same:
            _explain(values, place)

    def _compare(self, mine: int, took: float, step_time: float) -> Tuple[bool, int]:
        """Whether all ranks have the same fingerprint, and how many steps the next comparison is away. All ranks
        compute both from the same numbers."""
        import torch

        dist = torch.distributed
        numbers = torch.tensor([mine, -mine, int(took * 1e6), int(step_time * 1e6)], dtype=torch.int64)
        dist.all_reduce(numbers, op=dist.ReduceOp.MAX, group=side_group())
        most, least, cost, step = numbers.tolist()
        pause = 1 if step == 0 else min(SELDOM, int((cost + EXCHANGE) / (SHARE * step)))
        return most == -least, pause

    def is_whole(self, applied: bool, optimizers: List[Any]) -> None:
        """Called when a step ends. Where no optimizer has stepped, the step may be one whose error the script has
        caught. Then a collective fails, and the step does not count. It costs something only in such a step."""
        hooked = [o for o in optimizers if hasattr(o, "register_step_post_hook")]
        if applied or not hooked or world().size == 1 or torch_distributed() is None:
            return
        import torch

        torch.distributed.all_reduce(torch.zeros(1), group=side_group())


def _must_be_joined(values: Dict[str, Any]) -> None:
    """Raise if a model of torch is trained, and nothing averages the gradients of the ranks."""
    torch = sys.modules.get("torch")
    if torch is None or "horovod.torch" in sys.modules or not contents.optimizers(values):
        return
    for name, value in values.items():
        model = contents.bare(value)
        if isinstance(model, torch.nn.Module) and any(p.requires_grad for p in model.parameters()):
            raise ElasticError(
                f"{world().size} ranks train {name}, each by itself: torch.distributed has no process group, so the "
                "gradients are not averaged. Call torch.distributed.init_process_group() first, and wrap the model in "
                "DistributedDataParallel"
            )


def _explain(values: Dict[str, Any], place: Tuple[int, int]) -> None:
    """Raise what differs, on all ranks."""
    ranks = gather({"place": list(place), "sizes": fingerprint.sizes(values)})
    for rank, theirs in enumerate(ranks):
        if theirs["place"] != ranks[0]["place"]:
            raise ElasticError(
                f"rank {rank} has ended step {theirs['place'][0]} in epoch {theirs['place'][1]}, rank 0 step "
                f"{ranks[0]['place'][0]} in epoch {ranks[0]['place'][1]}: every rank ends every step"
            )
    what = fingerprint.difference([one["sizes"] for one in ranks])
    if what is not None:
        raise ElasticError(
            f"the ranks have different states after step {place[0]}: {what}. Every rank must apply the same "
            "gradients, schedules and rates; give it DistributedDataParallel, and do the same on all ranks"
        )
