"""Random numbers that a process which starts again takes as if it had not.

After each step the generators of torch, numpy and random are set from the script's own seed and the step. So
nothing is saved, a restarted script does not repeat the numbers of its first steps, and a step that is made
again takes the same ones. A script that seeds all ranks alike has the same numbers on all ranks, as before.
"""

from __future__ import annotations

import random
import sys
from typing import Any, Callable, Dict, Optional

from .permutation import mix

_HALF = (1 << 32) - 1
_POSITIVE = (1 << 63) - 1


class Randomness:
    """The generators of one process."""

    def __init__(self) -> None:
        self._torch: Optional[int] = None  # the script's seed
        self._given = -1  # the seed that torch has from here
        self._others: Dict[str, int] = {}

    def set(self, step: int) -> None:
        """Set the generators for what follows a step."""
        torch = sys.modules.get("torch")
        if hasattr(torch, "default_generator"):
            self._set_torch(torch, step)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            numpy.seed(self._of("numpy", lambda: int(numpy.randint(0, 1 << 31)), step) & _HALF)
        random.seed(self._of("random", lambda: random.getrandbits(62), step))

    def _of(self, name: str, draw: Callable[[], int], step: int) -> int:
        """The seed of a generator for a step. The first number that it gives stands for the script's seed."""
        if name not in self._others:
            self._others[name] = draw()
        return mix(mix(self._others[name]) ^ step)

    def _set_torch(self, torch: Any, step: int) -> None:
        now = torch.initial_seed()
        if now != self._given:  # the script has seeded it
            self._torch = now
        self._given = mix(mix(self._torch or 0) ^ step) & _POSITIVE
        torch.default_generator.manual_seed(self._given)
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.manual_seed(self._given)
