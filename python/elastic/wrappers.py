"""Wrappers around a model, as a training function makes them: which of them belong to a world that is
over, and which spread the state over the ranks.

They are found among the objects of the process that were made since the training function began.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any, Dict, Iterable, Iterator, Optional

from . import torch_private
from .errors import ElasticError

SHARDING = ("FullyShardedDataParallel", "FSDPModule", "ZeroRedundancyOptimizer", "DTensor", "DeepSpeedEngine")
"""Classes whose objects have a part of the state that no other rank has."""


DISARMED = "_elastic_disarmed"
"""In a DistributedDataParallel whose world is over."""


def disarm(generation: int) -> bool:
    """Make every DistributedDataParallel that the script keeps refuse calls and ignore gradients. In
    another world it would silently average over the ranks of the old one. False: one goes on, because this
    torch has another reducer."""
    if "torch.nn.parallel.distributed" not in sys.modules:
        return True

    def refuse(module: Any, *_: Any) -> None:
        raise ElasticError(
            f"a DistributedDataParallel of generation {generation} is called in another world: "
            "make it in the training function, which is called once for each world"
        )

    wrapper = sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel
    all_ignore = True
    for one in _objects():
        if not issubclass(type(one), wrapper) or one.__dict__.get(DISARMED):
            continue
        one.__dict__[DISARMED] = True
        one.register_forward_pre_hook(refuse)
        all_ignore = torch_private.release(one) and all_ignore
    return all_ignore


def sharded(values: Iterable[Any]) -> Optional[str]:
    """What spreads the state over the ranks; None: each rank has all of it."""
    if "torch.distributed" not in sys.modules:
        return None
    for value in values:
        name = _sharding(value) or next((n for n in map(_sharding, _parameters(value)) if n), None)
        if name:
            return name
    return next((name for name in map(_sharding, _objects()) if name), None)


def is_spread(values: Dict[str, Any]) -> bool:
    """Whether each rank has only a part of a value."""
    return any(_part(part) for value in values.values() for part in (value, *_parameters(value)))


def refuse_sharded(values: Dict[str, Any]) -> None:
    """Refuse a state of which each rank has a part: rank 0's alone would be saved."""
    for name, value in values.items():
        kind = next((k for k in map(_part, [value, *_parameters(value)]) if k), None)
        if kind is not None:
            raise ElasticError(
                f"state.{name} is spread over the ranks ({kind}), and State saves what rank 0 has: leave it out of State, save "
                "with torch.distributed.checkpoint, and run with --save-from=all"
            )


def refuse_positions(values: Dict[str, Any]) -> None:
    """Refuse loaders that know the position of their own rank: every rank would go on from that of rank 0."""
    for name, value in values.items():
        if any(kind.__name__ == "StatefulDataLoader" for kind in type(value).__mro__):
            raise ElasticError(
                f"state.{name} is a StatefulDataLoader, whose position is that of one rank: give State an elastic.Sampler, and "
                "the loader its batch_sampler()"
            )


PARALLEL = ("tp", "pp", "cp", "sp", "ep", "tensor", "pipeline", "context", "sequence", "expert", "model")
"""Names of dimensions of a DeviceMesh whose ranks compute the same samples."""


def refuse_unknown_mesh(sampler: Any) -> None:
    """Refuse model parallelism that the sampler was not told about: its ranks would take different samples."""
    if sampler.dealt is not None:
        return
    kind = _parallel_mesh() or _megatron()
    if kind is not None:
        raise ElasticError(
            f"the process has {kind}, and the sampler deals samples to all ranks: name the data-parallel ones, with "
            "Sampler(…, mesh=mesh['dp']) or Sampler(…, rank=, size=)"
        )


def _parallel_mesh() -> Optional[str]:
    if "torch.distributed.device_mesh" not in sys.modules:
        return None
    kind = sys.modules["torch.distributed.device_mesh"].DeviceMesh
    for one in gc.get_objects():
        if issubclass(type(one), kind):
            names = [name.lower() for name in one.mesh_dim_names or ()]
            if one.ndim > 1 or any(name.startswith(PARALLEL) for name in names):
                return f"a DeviceMesh of {' × '.join(names) or f'{one.ndim} dimensions'}"
    return None


def _megatron() -> Optional[str]:
    state = sys.modules.get("megatron.core.parallel_state")
    with contextlib.suppress(Exception):  # it is not initialized
        if state is not None and state.get_model_parallel_group().size() > 1:
            return "model-parallel groups of Megatron"
    return None


def _sharding(value: Any) -> Optional[str]:
    """The name of the class of sharded objects to which a value belongs."""
    kinds = type(value).__mro__
    return next((kind.__name__ for kind in kinds if kind.__name__ in SHARDING and _is_of_framework(kind)), None)


def _part(value: Any) -> Optional[str]:
    """The same, of a value of the state, which may be asked for more than its class."""
    if type(value).__module__.partition(".")[0] == "deepspeed":
        return type(value).__name__
    if getattr(value, "_is_flat_param", False):
        return "FlatParameter"
    return "ZeRO-3" if hasattr(value, "ds_tensor") else _sharding(value)


def _is_of_framework(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("torch", "deepspeed", "fairscale")


def _parameters(value: Any) -> Iterator[Any]:
    if hasattr(value, "parameters") and hasattr(value, "named_modules"):
        yield from value.parameters()
        yield from value.modules()
    for group in getattr(value, "param_groups", ()):
        yield from group.get("params", ())


def _objects() -> Iterator[Any]:
    """The objects that the garbage collector tracks. Objects from before the training function began are
    frozen, and not among them."""
    yield from gc.get_objects()
