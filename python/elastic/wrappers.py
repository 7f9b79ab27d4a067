"""Wrappers around a model, as a training function makes them: which of them belong to a world that is
over, and which spread the state over the ranks.

They are found among the objects of the process that were made since the training function began.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any, Iterable, Iterator, Optional

from .errors import ElasticError

SHARDING = ("FullyShardedDataParallel", "FSDPModule", "ZeroRedundancyOptimizer", "DTensor", "DeepSpeedEngine")
"""Classes whose objects have a part of the state that no other rank has."""


def disarm(generation: int) -> None:
    """Make every DistributedDataParallel that the script keeps refuse calls and ignore gradients. In
    another world it would silently average over the ranks of the old one."""
    if "torch.nn.parallel.distributed" not in sys.modules:
        return

    def refuse(module: Any, *_: Any) -> None:
        raise ElasticError(
            f"a DistributedDataParallel of generation {generation} is called in another world: "
            "make it in the training function, which is called once for each world"
        )

    wrapper = sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel
    for one in _objects():
        if not issubclass(type(one), wrapper) or "reducer" not in one.__dict__:
            continue
        one.register_forward_pre_hook(refuse)
        with contextlib.suppress(Exception):  # older torch has no such method: its hooks end with the reducer
            one.reducer._remove_autograd_hooks()
        one.__dict__.pop("reducer")
        one.__dict__.pop("logger", None)  # it holds the reducer


def sharded(values: Iterable[Any]) -> Optional[str]:
    """What spreads the state over the ranks; None: each rank has all of it."""
    if "torch.distributed" not in sys.modules:
        return None
    for value in values:
        name = _sharding(value) or next((n for n in map(_sharding, _parameters(value)) if n), None)
        if name:
            return name
    return next((name for name in map(_sharding, _objects()) if name), None)


def _sharding(value: Any) -> Optional[str]:
    """The name of the class of sharded objects to which a value belongs."""
    kinds = type(value).__mro__
    return next((kind.__name__ for kind in kinds if kind.__name__ in SHARDING and _is_of_framework(kind)), None)


def _is_of_framework(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("torch", "deepspeed", "fairscale")


def _parameters(value: Any) -> Iterator[Any]:
    if hasattr(value, "parameters") and hasattr(value, "named_modules"):
        yield from value.parameters()


def _objects() -> Iterator[Any]:
    """The objects that the garbage collector tracks. Objects from before the training function began are
    frozen, and not among them."""
    yield from gc.get_objects()
