"""How long this rank works in a step before it waits for the others.

In synchronous training the steps of all ranks take equally long. What differs is the time from the end of a step to
the last gradient of a rank: then it waits for theirs. It is measured where there is one DistributedDataParallel over
all ranks, on the CPU. The script of a GPU runs ahead of it, and other kinds of parallelism wait elsewhere.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import sys
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from .environment import world
from .wrappers import DISARMED

STEPS = 100
"""Steps of which the middle one is told. One that saves or validates does not count."""
LOOKED = 3
"""The step of a generation at whose end the wrapper is looked for: it is made by then."""


class Arrival:
    """One for each process. It never raises."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: Deque[Tuple[float, float]] = collections.deque(maxlen=STEPS)  # to the last gradient, and to the end
        self._generation: Optional[int] = None
        self._count = 0  # steps of that generation
        self._step: Optional[int] = None
        self._began = self._ready = 0.0
        self._hooks: List[Any] = []

    def step_ended(self, step: int) -> None:
        if self._generation != world().generation:
            self._begin(world().generation)
        elif step == self._step:  # it is told again, with its loss
            return
        now = self._clock()
        if self._ready > self._began:
            self._steps.append((self._ready - self._began, now - self._began))
        self._step, self._began = step, now
        self._count += 1
        if self._count == LOOKED:
            with contextlib.suppress(Exception):  # another torch
                self._hooks = [node for p in _ends(_wrapper()) for node in _noted(p, self.is_ready)]

    def is_ready(self, *_: Any) -> None:
        """A gradient is complete. The last one of a step counts."""
        self._ready = self._clock()

    def _begin(self, generation: int) -> None:
        for hook in self._hooks[1::2]:
            hook.remove()
        self._steps.clear()
        self._generation, self._count, self._ready, self._hooks = generation, 0, 0.0, []

    def figures(self) -> Dict[str, float]:
        """The seconds until this rank waits, and those of a step, in the middle of the last steps."""
        steps = list(self._steps)
        if len(steps) < STEPS:
            return {}
        own, whole = (sorted(column)[STEPS // 2] for column in zip(*steps))
        return {"own": own, "whole": whole}


def _wrapper() -> Any:
    """The only DistributedDataParallel of this process, if it is over all ranks; else None."""
    module = sys.modules.get("torch.nn.parallel.distributed")
    if module is None or world().size == 1:
        return None
    kind = module.DistributedDataParallel
    found = [one for one in gc.get_objects() if issubclass(type(one), kind) and not one.__dict__.get(DISARMED)]
    return found[0] if len(found) == 1 and found[0].process_group.size() == world().size else None


def _ends(wrapper: Any) -> List[Any]:
    """Its first and its last parameter: backward goes from one to the other, and no gradient comes after both."""
    trained = [p for p in wrapper.parameters() if p.requires_grad] if wrapper is not None else []
    return [] if any(p.device.type != "cpu" for p in trained) else trained[:1] + trained[1:][-1:]


def _noted(parameter: Any, note: Callable[..., None]) -> Tuple[Any, Any]:
    """Call note when the gradient of a parameter is complete. The node lives as long as somebody has it."""
    torch = sys.modules["torch"]
    with torch.enable_grad():
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return node, node.register_hook(note)
