"""How long a rank waits for the others in one step, with NCCL. Never run on a GPU.

A collective of NCCL ends neither when a peer is lost nor when its network is: somebody has to look. The agent reports a
lost node, and nothing else. A step takes milliseconds or minutes, so no constant fits all jobs, and a user who had to give
one would guess. The limits follow from the steps of this process. To look does no harm, so it comes early. To end the
step makes the worker fail, and another rank may be saving or validating alone meanwhile, so that comes never before
torch's own limit for NCCL. With gloo a collective ends with its connections, and torch's limits stay.
"""

from __future__ import annotations

import collections
import statistics
import time
from typing import Deque, Optional

LOOK_STEPS = 10
LOOK_LEAST = 1.0
LOOK_MOST = 60.0  # also before the first steps
END_STEPS = 100
END_LEAST = 600.0
END_START = 1800.0
"""Before the first steps: graphs are compiled, and data are loaded."""
END_MOST = 3600.0


def look_after(usual: Optional[float]) -> float:
    """Seconds in one step after which a rank looks whether a group has failed. usual is how long a step usually takes;
    None: not known."""
    return LOOK_MOST if usual is None else min(max(LOOK_STEPS * usual, LOOK_LEAST), LOOK_MOST)


def end_after(usual: Optional[float]) -> float:
    """Seconds after which a rank does not wait for the others any more."""
    return END_START if usual is None else min(max(END_STEPS * usual, END_LEAST), END_MOST)


class Pace:
    """How long steps take. A rank that saves or validates in some of them has a usual time as well."""

    LEAST = 3
    """Steps until a time is usual: the first one compiles."""
    MOST = 20

    def __init__(self) -> None:
        self._took: Deque[float] = collections.deque(maxlen=self.MOST)
        self._last: Optional[float] = None

    def begin(self) -> None:
        """A world begins: what comes until the next step is none."""
        self._last = None

    def step(self) -> None:
        """A step ends, or the first one begins."""
        now = time.monotonic()
        if self._last is not None:
            self._took.append(now - self._last)
        self._last = now

    def usual(self) -> Optional[float]:
        """Seconds; None: too few steps were made."""
        return statistics.median(self._took) if len(self._took) >= self.LEAST else None
