"""Which parameters are trained, as part of the state: a script that begins to train some of them in the middle does not
do so again where a new process goes on."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Tuple

from .contents import bare
from .environment import world
from .errors import say

FROZEN = "frozen parameters"
"""Its name in a checkpoint, which no value of a script can have."""


class Frozen:
    """The parameters of all modules that get no gradients."""

    def __init__(self, values: Callable[[], Dict[str, Any]]) -> None:
        self._values = values

    def _modules(self) -> Iterator[Tuple[str, Any]]:
        for name, value in self._values().items():
            if hasattr(value, "named_parameters") and hasattr(value, "named_modules"):
                yield name, bare(value)

    def state_dict(self) -> Dict[str, Any]:
        return {name: [key for key, p in module.named_parameters() if not p.requires_grad] for name, module in self._modules()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        changed = []
        for name, module in self._modules():
            frozen = set(state.get(name, ()))
            for key, parameter in module.named_parameters() if name in state else ():
                if parameter.requires_grad == (key in frozen):
                    parameter.requires_grad_(key not in frozen)
                    changed.append(f"{name}.{key}")
        if changed and world().rank == 0:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            say(f"{changed[0]}{more}: trained or frozen as when the state was saved, and not as the script began")
