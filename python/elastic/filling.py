"""Putting a saved value where the script finds it: into the object that it gave to State and may hold by a name of its
own, where that is possible."""

from __future__ import annotations

import copyreg
import sys
from collections import deque
from typing import Any, Optional, Set

from .copying import is_tensor


class Filler:
    """Fills values. A tensor whose memory is that of another part of the state is replaced: what fills it would change
    that part, too."""

    def __init__(self, others: Any) -> None:
        self._others: Set[Optional[int]] = set()
        self._note(others)

    def _note(self, value: Any) -> None:
        if isinstance(value, (dict, list, tuple)):
            for part in value.values() if isinstance(value, dict) else value:
                self._note(part)
        elif is_tensor(value):
            self._others.add(_memory(value))

    def filled(self, value: Any, saved: Any) -> Any:
        """The saved value, in the object that is there if it can be, else as it is."""
        if value is saved or type(value) is not type(saved):
            return saved
        if is_tensor(value) or _is_array(value):
            return self._numbers(value, saved)
        if isinstance(value, dict):
            entries = {key: self.filled(value.get(key), part) for key, part in saved.items()}
            value.clear()
            value.update(entries)
        elif isinstance(value, (list, deque)):
            parts = [self.filled(older, part) for older, part in zip([*value, *[None] * len(saved)], saved)]
            value.clear()
            value.extend(parts)
        elif isinstance(value, set):
            value.clear()
            value.update(saved)
        else:
            return self._object(value, saved)
        return value

    def _numbers(self, value: Any, saved: Any) -> Any:
        if value.shape != saved.shape or value.dtype != saved.dtype:
            return saved
        if hasattr(value, "flags"):
            if not value.flags.writeable:
                return saved
            value[...] = saved
        else:
            memory = _memory(value)
            if memory is None or memory in self._others or 0 in value.stride():
                return saved
            value.detach().copy_(saved.detach())
        return value

    def _object(self, value: Any, saved: Any) -> Any:
        state = _state(saved)
        frozen = getattr(getattr(value, "__dataclass_params__", None), "frozen", False)
        if state is None or frozen:
            return saved
        if hasattr(value, "__setstate__"):
            value.__setstate__(state)
        else:
            self.filled(vars(value), state)
        return value


def _state(value: Any) -> Optional[Any]:
    """The state of an object that has no more than that; None: it is made in another way."""
    try:
        make, arguments, state, *more = value.__reduce_ex__(2)
    except (TypeError, ValueError):
        return None
    new = copyreg.__newobj__  # type: ignore[attr-defined]
    whole = arguments == () if make is type(value) else make is new and arguments == (type(value),)
    settable = hasattr(value, "__setstate__") or isinstance(state, dict) and hasattr(value, "__dict__")
    return state if whole and settable and not any(more) else None


def _is_array(value: Any) -> bool:
    return isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ()))


def _memory(tensor: Any) -> Optional[int]:
    """Where the numbers of a tensor lie; None: not in one piece."""
    if tensor.layout != sys.modules["torch"].strided:
        return None
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return int(storage.data_ptr())
