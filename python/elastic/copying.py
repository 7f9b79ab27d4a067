"""Copies of a state that share nothing with it.

A copy at a boundary stays where the state is, for a rank that goes back. The copy that a save writes is in memory
of the host.
"""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Set

Move = Callable[[Any, Any], Any]
"""Copies a tensor, into an older copy if that fits."""


class Copier:
    """Makes one copy. Tensors that are one in the state, as tied weights are, are one in the copy."""

    def __init__(self, move: Move) -> None:
        self._move = move
        self._known: Dict[Any, Any] = {}  # copies by the memory that they are of
        self._used: Set[int] = set()  # older copies that were written into
        self._others: Dict[int, Any] = {}  # the memory of deepcopy

    def copy(self, value: Any, into: Any = None) -> Any:
        """A copy of a value. Tensors are copied into those of `into`, an older copy, where they have the same
        form: memory is taken once."""
        if is_tensor(value):
            return self._tensor(value, into)
        if type(value) in (dict, OrderedDict):
            older = into if isinstance(into, dict) else {}
            result: Any = type(value)()
            for name, part in value.items():
                result[name] = self.copy(part, older.get(name))
            if hasattr(value, "_metadata"):  # a module reads the versions of its parts in it
                result._metadata = value._metadata
            return result
        if type(value) in (list, tuple):
            olders = into if type(into) is type(value) and len(into) == len(value) else [None] * len(value)
            return type(value)(self.copy(part, older) for part, older in zip(value, olders))
        return copy.deepcopy(value, self._others)

    def _tensor(self, value: Any, into: Any) -> Any:
        key = _memory(value)
        if key is not None and key in self._known:
            return self._known[key]
        if id(into) in self._used:  # it is of two tensors that were one, and are no more
            into = None
        made = self._move(value, into)
        self._used.add(id(made))
        if key is not None:
            self._known[key] = made
        return made


def is_tensor(value: Any) -> bool:
    return isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ()))


def _memory(value: Any) -> Any:
    """What identifies the memory of a tensor; None: it is not compared."""
    torch = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or not value.numel():
        return None
    form = value.dtype, value.device, tuple(value.shape), value.stride()
    return (value.data_ptr(), type(value), value.requires_grad, *form)


def in_place(value: Any, into: Any) -> Any:
    """A copy on the device of the tensor."""
    source = value.detach()
    fits = type(into) is type(value) and into.shape == value.shape and into.requires_grad == value.requires_grad
    if fits and into.dtype == value.dtype and into.device == value.device:
        into.detach().copy_(source)
        return into
    return _like(value, source.clone())


def _like(value: Any, data: Any) -> Any:
    """Data as a tensor of the kind that value is."""
    parameter = sys.modules["torch"].nn.Parameter
    if type(value) is parameter:
        return parameter(data, requires_grad=value.requires_grad)
    return data.requires_grad_() if value.requires_grad else data


class ToHost:
    """Copies to memory of the host. Those of a GPU go to pinned memory on a stream beside that of training, which
    waits on the GPU for their end, because it would change the tensors. This was never run on a GPU."""

    def __init__(self) -> None:
        self._streams: Dict[Any, Any] = {}  # by device

    def move(self, value: Any, into: Any) -> Any:
        if value.device.type != "cuda":
            return in_place(value, into)
        torch = sys.modules["torch"]
        fits = type(into) is torch.Tensor and into.shape == value.shape and into.dtype == value.dtype
        pinned = into if fits and into.is_pinned() else torch.empty_like(value.detach(), device="cpu", pin_memory=True)
        with torch.cuda.stream(self._stream(value.device)):
            pinned.detach().copy_(value.detach(), non_blocking=True)
        return pinned

    def _stream(self, device: Any) -> Any:
        cuda = sys.modules["torch"].cuda
        if device not in self._streams:
            self._streams[device] = cuda.Stream(device)
            self._streams[device].wait_stream(cuda.current_stream(device))
        return self._streams[device]

    def end(self) -> Callable[[], None]:
        """Let training go on when the GPUs have made the copies. The result waits until they are here."""
        cuda: Optional[Any] = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return lambda: None
        events: List[Any] = []
        for device, stream in self._streams.items():
            cuda.current_stream(device).wait_stream(stream)
        for device in {*self._streams, cuda.current_device()}:
            events.append(cuda.current_stream(device).record_event())

        def wait() -> None:
            for event in events:
                event.synchronize()

        return wait
