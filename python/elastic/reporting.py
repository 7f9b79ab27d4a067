"""Progress, reported to the launcher without ever holding up a step.

A step leaves its figures in a slot and goes on. A thread of the helper appends the newest
ones to $ELASTIC_PROGRESS_FILE. Only figures that the thread cannot write are lost.
"""

from __future__ import annotations

import atexit
import collections
import json
import math
import os
import threading
from typing import Any, Deque, Dict, Optional, Tuple

from .arrival import Arrival
from .environment import world

INTERVAL = 0.1
"""Smallest number of seconds between two lines."""
LOSSES = 1000
"""Losses between two lines that are looked at."""


class Reporter:
    """One for each process. report() takes some microseconds, never waits and never raises."""

    def __init__(self, path: Optional[str], interval: float = INTERVAL) -> None:
        self._path = path
        self._interval = interval
        self._slot: Optional[Dict[str, Any]] = None
        self._losses: Deque[Tuple[Any, Any]] = collections.deque(maxlen=LOSSES)  # and their steps, since the last line
        self._news = threading.Event()
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._pid = os.getpid()
        self._arrival = Arrival()

    def report(self, figures: Dict[str, Any]) -> None:
        if self._path is None:
            return
        if "loss" in figures:
            self._losses.append((figures.get("step"), figures["loss"]))
        self._slot = figures
        if not self._news.is_set():
            self._news.set()
        if self._thread is None:
            self._start()

    def step_ended(self, step: int) -> None:
        """A step ends here, and the next one begins. It may be told more than once."""
        if self._path is not None:
            self._arrival.step_ended(step)

    def close(self) -> None:
        """Write the pending report within half a second, and end the thread."""
        if self._thread is not None and self._pid == os.getpid():
            self._stop.set()
            self._news.set()
            self._thread.join(0.5)

    def _start(self) -> None:
        try:
            self._thread = threading.Thread(target=self._run, name="elastic-progress", daemon=True)
            self._thread.start()
            atexit.register(self.close)
        except RuntimeError:  # no thread can be started: training matters more
            self._path = None

    def _run(self) -> None:
        while not self._stop.is_set():
            self._news.wait()
            self._news.clear()
            self._write()
            self._stop.wait(self._interval)
        self._write()

    def _read_losses(self) -> Tuple[Optional[Dict[str, Any]], Optional[float]]:
        """The first loss since the last line that is not finite, with its step, because the newest one may be finite
        again; and the newest loss."""
        bad, newest = None, None
        while self._losses:
            step, value = self._losses.popleft()
            loss = _plain(value)
            newest = loss if loss is not None else newest
            if loss is not None and bad is None and not math.isfinite(loss):
                bad = {"step": _plain(step), "loss": loss}
        return bad, newest

    def _write(self) -> None:
        figures, self._slot = self._slot, None
        if figures is None:
            return
        try:
            plain = {name: _plain(value) for name, value in figures.items() if name != "loss"}
            plain.update(self._arrival.figures())
            bad, plain["loss"] = self._read_losses()
            lines = [{n: v for n, v in line.items() if v is not None} for line in (bad, plain) if line is not None]
            with open(self._path or os.devnull, "a", encoding="utf-8") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))
        except Exception:  # a full disk: the next line is tried
            pass


def _plain(value: Any) -> Any:
    """Convert the number of a framework. A tensor is read here and not in the step. None: it is no number."""
    if type(value) in (int, float):
        return value
    try:
        return float(value)
    except Exception:  # a tensor of many elements
        return None


_reporter: Optional[Reporter] = None


def reporter() -> Reporter:
    """Return the reporter of this process."""
    global _reporter
    if _reporter is None:
        _reporter = Reporter(world().progress_file)
    return _reporter


def progress(
    step: Optional[int] = None, loss: Any = None, samples: Optional[int] = None, **more: Any
) -> None:
    """Report to the launcher how far training is, in a script without a State. loss may be a number or
    a tensor of one element. With total_samples or total_steps, those of the whole training, the
    launcher knows the time that is left. `elastic status` shows rank 0's; a loss that is not a number is seen on
    every rank that reports one."""
    try:
        if step is not None:
            reporter().step_ended(step)
        figures = dict(more, step=step, loss=detached(loss), samples=samples)
        reporter().report({name: value for name, value in figures.items() if value is not None})
    except Exception:
        pass


def detached(loss: Any) -> Any:
    """The loss without the graph that computed it, which must not outlive the step."""
    return loss.detach() if hasattr(loss, "detach") else loss
