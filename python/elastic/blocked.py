"""Whether a thread hangs in a collective of torch.

A collective of gloo that lost a write never ends, even when its connections are shut. Then the
process has to be started again at once, and not only after the limit for a long step.
"""

from __future__ import annotations

import sys
import time
from typing import Optional

from . import subgroups

LASTING = 1.0
"""A thread hangs after so many seconds in torch without using a processor."""
COMPUTES = 0.02
"""A thread with so many seconds of processor time in that period does not hang."""


class Watch:
    """Watches one thread, from now on."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._since: Optional[float] = None  # since then it is in torch and has not computed
        self._used = 0.0

    def hangs(self) -> bool:
        """Look again."""
        if not in_torch(self._thread):
            self._since = None
            return False
        used = time.clock_gettime(time.pthread_getcpuclockid(self._thread))
        if self._since is None or used - self._used > COMPUTES:
            self._since, self._used = time.monotonic(), used
        return time.monotonic() - self._since > LASTING


def in_torch(thread: int) -> bool:
    """Whether the innermost Python function of a thread is one of torch, or waits for its groups to end."""
    frame = sys._current_frames().get(thread)
    name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    return name.partition(".")[0] == "torch" or name == subgroups.__name__
