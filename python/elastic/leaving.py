"""How the training function is left when its world is over: by an exception.

Usually that is the error of an interrupted collective. A step that catches every Exception goes on to
the next step instead. There the next call of a module raises WorldChanged, which is not an Exception.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, NoReturn, Optional

from .agent import StoreError
from .state import State

CAUGHT = 1.0
"""A script that still calls modules after so many seconds has caught WorldChanged."""


class WorldChanged(BaseException):
    """Raised in the training function to leave it. Not an Exception: the script does not catch it."""


class Exit:
    """Leaves the training function. The thread that calls the function makes it, and only that thread
    calls leave(). The other methods are called with the lock of Training."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._thread = os.getpid(), threading.get_ident()  # a process that is forked has the same thread
        self._hook: Any = None
        self._since: Optional[float] = None  # when WorldChanged was raised first
        self._times = 0

    def leave(self) -> NoReturn:
        """Leave the function."""
        self._since = self._since or time.monotonic()
        self._times += 1
        raise WorldChanged

    def insist(self) -> None:
        """Make the next call of any module in the thread of the function leave the function."""
        modules: Any = sys.modules.get("torch.nn.modules.module")
        if self._hook is None and hasattr(modules, "register_module_forward_pre_hook"):
            self._hook = modules.register_module_forward_pre_hook(self._called)

    def is_caught(self) -> bool:
        """Whether the script catches WorldChanged and goes on."""
        return self._times > 1 and self._since is not None and time.monotonic() - self._since > CAUGHT

    def has_left(self) -> None:
        """Note that the function was left, so modules may be called again."""
        if self._hook is not None:
            self._hook.remove()
        self._hook, self._since, self._times = None, None, 0

    def _called(self, *_: Any) -> None:
        """Called before a module is called. Between optimizer.step() and end_step() the step goes on, because
        a rank that is left there makes the step again."""
        if (os.getpid(), threading.get_ident()) == self._thread and not self._state._course.is_applied():
            self.leave()


MARKS = ("gloo", "nccl", "process group", "elastic store")
"""In the text of an error of a collective, wherever it was raised."""
WORDS = ("connection", "peer", "socket", "broken pipe", "timed out", "timeout", "aborted", "reset", "unreachable")
"""In the text of such an error, if it comes from torch."""


def is_of_communication(error: Optional[BaseException]) -> bool:
    """Whether an error looks like the loss of another rank: by its type, its text, and the module that raised it. A
    request of the script that timed out is not one."""
    while error is not None:
        text = str(error).lower()
        if type(error).__name__.startswith("Dist") or isinstance(error, StoreError):
            return True
        if isinstance(error, (RuntimeError, OSError)):
            if any(mark in text for mark in MARKS):
                return True
            network = isinstance(error, (ConnectionError, TimeoutError)) or any(word in text for word in WORDS)
            if network and _is_of_torch(error):
                return True
        error = error.__cause__ or error.__context__
    return False


def _is_of_torch(error: BaseException) -> bool:
    """Whether torch or this helper raised an error, outside of loaders."""
    frame = error.__traceback__
    if frame is None:
        return True
    while frame.tb_next is not None:
        frame = frame.tb_next
    name = str(frame.tb_frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in ("torch", "elastic") and not name.startswith("torch.utils")
