"""Saves in the background: the training thread copies the state, and another thread writes the copy.

That thread is none that Python ends without waiting, so a save that was begun is whole at the end of the process,
unless that is killed. Its mark is written last, so a save counts as a whole or not at all.
"""

from __future__ import annotations

import threading
from typing import Callable, Optional

from .errors import say

Write = Callable[[], Optional[str]]
"""Writes a save and returns its path; None: it is not wanted any more."""


class Writer:
    """Writes one save at a time."""

    def __init__(self) -> None:
        self._thread: Optional[threading.Thread] = None
        self._path: Optional[str] = None
        self._error: Optional[BaseException] = None
        self._given_up = threading.Event()

    def begin(self, step: int, write: Write) -> None:
        """Begin to write a save. The one before was waited for."""
        self._given_up.clear()
        self._thread = threading.Thread(target=self._run, args=(step, write), name="elastic-save")
        self._thread.start()

    def _run(self, step: int, write: Write) -> None:
        try:
            self._path = or_say(step, write)
        except BaseException as error:
            self._error = error

    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def is_wanted(self) -> bool:
        """Whether what is written now may get its mark."""
        return not self._given_up.is_set()

    def give_up(self) -> None:
        """The state that is written now was replaced: its save gets no mark. Does not wait."""
        if self.is_busy():
            self._given_up.set()

    def wait(self) -> Optional[str]:
        """Wait until nothing is written. Return the path of what was, and raise its error."""
        if self._thread is not None:
            self._thread.join()
        self._given_up.clear()
        path, error = self._path, self._error
        self._thread = self._path = self._error = None
        if error is not None:
            raise error
        return path


def or_say(step: int, write: Write) -> Optional[str]:
    """Save. If the disk refuses it, training goes on, and the next save is made at its usual time."""
    try:
        return write()
    except OSError as error:
        say(f"step {step} is not saved: {error}; training goes on")
        return None
