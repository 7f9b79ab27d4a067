"""What a State consists of: taking it out of the objects of the script, copying it, and putting it back."""

from __future__ import annotations

import copy
import sys
from typing import Any, Dict, Iterator, List

from .errors import ElasticError, LoadError
from .sampler import Sampler


def bare(value: Any) -> Any:
    """The module inside of a data-parallel wrapper. A checkpoint has the module without its wrapper."""
    wrapped = type(value).__name__ in ("DistributedDataParallel", "DataParallel")
    return getattr(value, "module", value) if wrapped else value


def loader(value: Any) -> Any:
    """The method that takes what state_dict() gave; None for a plain value."""
    value = bare(value)
    if not hasattr(value, "state_dict"):
        return None
    return getattr(value, "load_state_dict", None) or getattr(value, "set_state_dict", None)


def content(values: Dict[str, Any]) -> Dict[str, Any]:
    """The state of each value."""
    return {name: bare(v).state_dict() if loader(v) is not None else v for name, v in values.items()}


def restore(owner: Any, values: Dict[str, Any], saved: Dict[str, Any]) -> None:
    """Put a content back. The sampler comes first: it refuses what does not fit, before anything has changed."""
    missing = [name for name in values if name not in saved]
    if missing:
        raise LoadError(f"the checkpoint has no {', '.join(missing)}: it was saved by another script")
    for name, value in sorted(values.items(), key=lambda item: not isinstance(item[1], Sampler)):
        load = loader(value)
        if load is not None:
            load(saved[name])
        else:
            setattr(owner, name, saved[name])


def duplicate(value: Any, into: Any = None) -> Any:
    """A copy that shares nothing with the value. Tensors are copied into those of `into`, an older copy,
    where they have the same form: memory is taken once, and not in each step."""
    torch = sys.modules.get("torch")
    tensor: Any = getattr(torch, "Tensor", ())
    if isinstance(value, tensor):
        if _same_form(value, into):
            return into.copy_(value.detach())
        return value.detach().clone()
    if isinstance(value, dict):
        older = into if isinstance(into, dict) else {}
        result: Any = type(value)() if hasattr(value, "_metadata") else {}
        for name, part in value.items():
            result[name] = duplicate(part, older.get(name))
        if hasattr(value, "_metadata"):  # a module reads the versions of its parts in it
            result._metadata = value._metadata
        return result
    if type(value) in (list, tuple):
        olders = into if type(into) is type(value) and len(into) == len(value) else [None] * len(value)
        return type(value)(duplicate(part, older) for part, older in zip(value, olders))
    return copy.deepcopy(value)


def _same_form(value: Any, into: Any) -> bool:
    if type(into) is not type(value.detach()) or into.shape != value.shape:
        return False
    return bool(into.dtype == value.dtype and into.device == value.device)


def optimizers(values: Dict[str, Any]) -> List[Any]:
    """The optimizers among the values, without the wrappers of accelerate."""
    found = []
    for value in values.values():
        inner = getattr(value, "optimizer", None)
        if not hasattr(value, "last_epoch") and hasattr(inner, "param_groups"):
            value = inner
        if hasattr(value, "param_groups"):
            found.append(value)
    return found


def parameters(values: Dict[str, Any]) -> Iterator[Any]:
    """The parameters of all modules and optimizers."""
    for value in values.values():
        if hasattr(value, "named_parameters") and hasattr(value, "named_modules"):
            yield from value.parameters()
    for optimizer in optimizers(values):
        for group in optimizer.param_groups:
            yield from group.get("params", ())


def drop_gradients(values: Dict[str, Any]) -> None:
    """Drop the gradients of a step that was interrupted, which a script that clears them at the end of a step
    would add to those of the next one."""
    for parameter in parameters(values):
        if getattr(parameter, "grad", None) is not None:
            parameter.grad = None


def copied(values: Dict[str, Any], into: Any) -> Dict[str, Any]:
    """A copy of the state of each value."""
    try:
        copy_of_all: Dict[str, Any] = duplicate(content(values), into)
        return copy_of_all
    except Exception as error:
        raise ElasticError(f"the state cannot be copied, which going back to the last step needs: {error}") from error
