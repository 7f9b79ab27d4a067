"""The groups that a script makes by new_group: each is of one world.

Torch 2.15 keeps them when its default group gets other members, and goes on counting their names. A
process that comes later counts from the start, so the ranks of the next world would never meet.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any, List, Optional

from . import collective, torch_private


class Subgroups:
    """The groups of one world after the other."""

    def __init__(self, dist: Any) -> None:
        self._dist = dist
        self._count: Optional[int] = None  # of names, where no subgroup is

    def begin(self) -> None:
        """Called when the default group has just been made."""
        self._count = torch_private.names(self._dist)

    def end(self) -> bool:
        """End all of them. True: the script keeps one, whose ranks are those of a world that is over."""
        side = collective.forget_side()
        groups = self._all()
        script = [weakref.ref(group) for group in groups if group is not side]
        while groups:
            with contextlib.suppress(Exception):  # its members are gone
                self._dist.destroy_process_group(groups[-1])
            groups.pop()
        if self._count is not None:
            torch_private.set_names(self._dist, self._count)
        if any(ref() is not None for ref in script):
            gc.collect()
        return any(ref() is not None for ref in script)

    def of_all(self) -> List[Any]:
        """All groups of the world, also the default one."""
        return torch_private.groups(self._dist)

    def _all(self) -> List[Any]:
        default = torch_private.default_group(self._dist)
        return [group for group in self.of_all() if group is not default]
