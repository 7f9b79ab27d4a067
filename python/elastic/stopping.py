"""Ending a process between two steps, when the launcher wants the machine or another world.

`elastic run` asks by a file ($ELASTIC_DRAIN_FILE) and a SIGTERM. If the world is lost
already, nothing can be saved: another file ($ELASTIC_DRAIN_FILE.over) appears before the
SIGTERM, and the process ends at once, even from within a collective that is blocked. A
SIGTERM without either is that of a scheduler, which sends it to the agent as well: training
goes on until the agent has said what it wants.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn, Optional

from .collective import Vote
from .environment import world
from .errors import say

STOPPED = 143
"""Exit status of a worker that stopped as asked. Not 0: that would say that training is through."""
AGAIN = 101
"""Exit status of a worker that stopped because others were asked. It asks for a new generation."""
LOOK = 0.05
"""Seconds between two looks for the file: a look costs as much as the rest of a step's bookkeeping."""
OWN_WISH_LIMIT = 30.0
"""Seconds to wait to be asked as well, after another rank was."""
WORD_LIMIT = 10.0
"""Seconds to train on after a SIGTERM that is not the agent's, until the agent says what it wants."""


class Stopped(SystemExit):
    """Raised by state.commit() after the last step of this world. It ends the process, with
    the status that the launcher expects, unless the script catches it."""


class Stopper:
    """One for each process."""

    def __init__(self, drain_file: Optional[str]) -> None:
        self._drain_file = drain_file
        self._asked = False
        self._look_at = 0.0
        self._vote = Vote()
        self.agreed = False
        self._handler: Any = None  # of SIGTERM, if it is ours
        if drain_file is not None:
            self._listen()

    def asked(self) -> bool:
        """Whether the launcher wants this rank to stop."""
        if not self._asked and self._drain_file is not None:
            now = time.monotonic()
            if now >= self._look_at:
                self._look_at = now + LOOK
                self._asked = os.path.exists(self._drain_file)
        return self._asked

    def step(self) -> bool:
        """Call once for each step: True at the same step on every rank."""
        if not self.agreed:
            self.agreed = self._vote.cast(self.asked, world().size)
        return self.agreed

    def status(self) -> int:
        """Return the exit status, when this rank has been asked as well. A rank that ends
        earlier looks like one that failed."""
        limit = time.monotonic() + OWN_WISH_LIMIT
        while not self.asked():
            if time.monotonic() > limit:
                return AGAIN
            time.sleep(0.01)
        return STOPPED

    def leave(self) -> NoReturn:
        status = self.status()
        say(f"rank {world().rank} stopped as asked")
        raise Stopped(status)

    def _listen(self) -> None:
        """Receive SIGTERM in a thread: Python's own handlers wait for the main thread, which may be
        blocked in a collective."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return  # the script has a handler of its own
        read, write = os.pipe()
        os.set_blocking(write, False)
        self._handler = lambda number, frame: None
        signal.signal(signal.SIGTERM, self._handler)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        os.register_at_fork(before=_hold_sigterm, after_in_parent=_let_sigterm_through, after_in_child=_forget_signals)
        threading.Thread(target=self._hear, args=(read,), name="elastic-stop", daemon=True).start()
        atexit.register(self._at_exit)

    def take_back(self) -> None:
        """Receive SIGTERM again, after a framework took it. A framework in C leaves no trace in Python."""
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)

    def _hear(self, read: int) -> None:
        while True:
            if signal.SIGTERM in os.read(read, 64):
                self._obey(self._drain_file or "")

    def _obey(self, drain_file: str) -> None:
        """Do what the launcher wants, as soon as it says so."""
        limit = time.monotonic() + WORD_LIMIT
        while not os.path.exists(drain_file):
            if os.path.exists(drain_file + ".over") or time.monotonic() > limit:
                os._exit(STOPPED)
            time.sleep(0.01)
        self._asked = True

    def _at_exit(self) -> None:
        """A script that left its loop because of should_stop() ends with status 0 by itself."""
        if self.agreed:
            from .reporting import reporter

            reporter().close()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(STOPPED)


# Processes that the script forks, such as loaders, must not speak for it: a SIGTERM that one of
# them gets before it has forgotten the pipe would be taken for ours.


def _hold_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _let_sigterm_through() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_sigterm_through()


_stopper: Optional[Stopper] = None


def stopper() -> Stopper:
    """The one of this process."""
    global _stopper
    if _stopper is None:
        _stopper = Stopper(world().drain_file)
    return _stopper


def should_stop() -> bool:
    """Whether to save and leave the loop now. Call it once for each step, on every rank: it
    is True at the same step on all of them. state.commit() does it by itself."""
    s = stopper()
    if s.step():
        s.status()
        return True
    return False
