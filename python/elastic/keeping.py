"""When a State is saved, and where."""

from __future__ import annotations

import re
import sys
import time
from typing import Any, Callable, Dict, Optional, Tuple, Union

from . import saving
from .environment import world
from .errors import ElasticError, whole_number

Place = Tuple[int, int]
"""Where training is: steps that are done, and the epoch that is at hand."""


SHARE = 0.02
"""Part of the time that saves may take which are made by time. The other ranks wait for them."""


class Keeping:
    """The checkpoints of one State."""

    def __init__(self, every: Union[int, str, None], directory: Optional[str], keep: int) -> None:
        self.every_steps, self.every_seconds = interval(every)
        self.directory = directory or world().checkpoint_dir
        self._keep = whole_number("keep", keep, 1)
        self._saved: Optional[Place] = None
        self._at = time.monotonic()
        self._took = 0.0  # seconds of the last save, for which all ranks wait
        self.wanted = False  # save() was called in the middle of a step

    def due(self, step: int) -> bool:
        """Whether it is time to save after a step."""
        if self.wanted:
            return True
        if self._saved is not None and self._saved[0] == step:  # the end of its epoch is made again
            return False
        if self.every_steps:
            return step % self.every_steps == 0
        wait = max(self.every_seconds, self._took / SHARE)
        return bool(self.every_seconds) and time.monotonic() - self._at >= wait

    def is_at(self, place: Place) -> None:
        """Note that the state is that of a checkpoint."""
        self._saved = place

    def forget(self) -> None:
        """Note that the state is that of another rank."""
        self._saved = None

    def write(self, place: Place, content: Callable[[], Dict[str, Any]], mark: Dict[str, Any]) -> Optional[str]:
        """Save on rank 0. None: nothing is written, because this place is saved, or there is no directory."""
        self._at, self.wanted = time.monotonic(), False
        if world().rank != 0 or self.directory is None or self._saved == place:
            return None
        began = time.monotonic()
        path = saving.write(self.directory, content(), mark)
        self._took = time.monotonic() - began
        saving.retain(self.directory, place[0], self._keep)
        self._saved = place
        return path

    def or_say(self, step: int, write: Callable[[], Any]) -> None:
        """Save. If the disk refuses it, training goes on, and the next save is made at its usual time."""
        try:
            write()
        except OSError as error:
            print(f"elastic: step {step} is not saved: {error}; training goes on", file=sys.stderr)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def interval(every: Union[int, str, None]) -> "tuple[int, float]":
    """Steps and seconds of save_every; one of them is 0, or both."""
    if every is None:
        return 0, 0.0
    if isinstance(every, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", every)
        if match:
            return 0, float(match[1]) * _UNITS[match[2]]
        if not every.isdigit():
            raise ElasticError(f'save_every={every!r}: steps (100) or a time ("30s", "5m")')
        every = int(every)
    return whole_number("save_every", every, 1), 0.0
