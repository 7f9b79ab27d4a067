"""What a State consists of: taking it out of the objects of the script, and putting it back."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

from .copying import Copier, in_place
from .errors import ElasticError, MismatchError
from .filling import Filler
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
        raise MismatchError(f"the checkpoint has no {', '.join(missing)}: it was saved by another script")
    plain = any(loader(value) is None for value in values.values())
    filler = Filler([bare(value).state_dict() for value in values.values() if plain and loader(value) is not None])
    for name, value in sorted(values.items(), key=lambda item: not isinstance(item[1], Sampler)):
        load = loader(value)
        if load is not None:
            load(saved[name])
        else:
            setattr(owner, name, filler.filled(value, saved[name]))


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
        copy_of_all: Dict[str, Any] = Copier(in_place).copy(content(values), into)
        return copy_of_all
    except Exception as error:
        raise ElasticError(f"the state cannot be copied, which going back to the last step needs: {error}") from error
