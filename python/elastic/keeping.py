"""When a State is saved, and where."""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, Optional, Tuple, Union

from . import saving
from .copying import Copier, ToHost
from .environment import world
from .errors import ElasticError, whole_number
from .writing import Writer, or_say

Place = Tuple[int, int]
"""Where training is: steps that are done, and the epoch that is at hand."""
Mark = Dict[str, Any]
Content = Callable[[], Dict[str, Any]]

SHARE = 0.02
"""Part of the time for which saves that are made by time may hold up training."""


class Keeping:
    """The checkpoints of one State."""

    def __init__(self, every: Union[int, str, None], directory: Optional[str], keep: int) -> None:
        self.every_steps, self.every_seconds = interval(every)
        self.directory = directory or world().checkpoint_dir
        self._keep = whole_number("keep", keep, 1)
        self._saved: Optional[Place] = None
        self._at = time.monotonic()
        self._took = 0.0  # seconds for which the last save that was made by time held up all ranks
        self._writer = Writer()
        self._writing: Optional[Place] = None  # what the writer writes, if the state was not replaced since
        self._copy: Any = None  # what was written last: its memory is used again
        self.wanted = False  # save() was called in the middle of a step

    def due(self, step: int) -> bool:
        """Whether it is time to save after a step."""
        if not self._writer.is_busy():
            self.wait()
        if self.wanted:
            return True
        newest = self._newest()
        if newest is not None and newest[0] == step:  # the end of its epoch is made again
            return False
        if self.every_steps:
            return step % self.every_steps == 0
        wait = max(self.every_seconds, self._took / SHARE)
        return bool(self.every_seconds) and not self._writer.is_busy() and time.monotonic() - self._at >= wait

    def _newest(self) -> Optional[Place]:
        return self._writing or self._saved

    def is_at(self, place: Place) -> None:
        """Note that the state is that of a checkpoint."""
        self._saved = place

    def forget(self) -> None:
        """Note that the state was replaced by that of another rank."""
        self._writer.give_up()
        self._writing = self._saved = None

    def wait(self) -> None:
        """Wait until nothing is written. The error of what was written is raised here."""
        path, place = self._writer.wait(), self._writing
        self._writing = None
        if path is not None and place is not None:
            self._saved = place

    def begin(self, place: Place, content: Content, mark: Mark) -> None:
        """Save on rank 0, in the background. Training is held up for a copy of the state, and for a save that is
        still being written."""
        began = time.monotonic()
        self._at, self.wanted = began, False
        if not self._is_to_write(place):
            return
        self.wait()
        values, to_host = content(), ToHost()
        try:
            copied = saving.is_copied(values)
            self._copy = Copier(to_host.move).copy(values, self._copy) if copied else None
        except Exception:  # what cannot be copied is written at once
            copied, self._copy = False, None
        if copied:
            ready = to_host.end()
            self._writing = place
            self._writer.begin(place[0], lambda: self._write(self._copy, mark, ready))
        elif or_say(place[0], lambda: self._write(values, mark)) is not None:
            self._saved = place
        self._took = time.monotonic() - began

    def save(self, place: Place, content: Content, mark: Mark) -> Optional[str]:
        """Save on rank 0, and return the path when the save is whole. None: nothing is written, because this place is
        saved, or there is no directory."""
        self.wait()
        self._at, self.wanted = time.monotonic(), False
        if not self._is_to_write(place):
            return None
        path = self._write(content(), mark)
        self._saved = place
        return path

    def _is_to_write(self, place: Place) -> bool:
        return world().rank == 0 and self.directory is not None and self._newest() != place

    def _write(self, content: Dict[str, Any], mark: Mark, ready: Callable[[], None] = lambda: None) -> Optional[str]:
        """Write in either thread. None: the state was replaced in the meantime."""
        assert self.directory is not None
        ready()
        path = saving.write(self.directory, content, mark, self._writer.is_wanted)
        if path is not None:
            saving.retain(self.directory, mark["step"], self._keep)
        return path


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
