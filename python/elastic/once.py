"""Code that runs once in a job, as part of its state."""

from __future__ import annotations

from typing import Any, Dict, Set


class Once:
    """The names of the code that has run. A rank that goes back to an earlier state forgets the later names."""

    def __init__(self) -> None:
        self._names: Set[str] = set()

    def first(self, name: str) -> bool:
        """Whether this is the first time."""
        new = name not in self._names
        self._names.add(name)
        return new

    def state_dict(self) -> Dict[str, Any]:
        return {name: 1 for name in sorted(self._names)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._names = set(state)
