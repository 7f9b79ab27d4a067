"""The state of one rank for those that have none, over NCCL: each tensor goes from the device where it is to the ranks
that need it, and the rest as a pickle to all. With gloo the whole is a pickle (voting.py). Never run on a GPU."""

from __future__ import annotations

import io
import pickle
from typing import Any, Callable, List, Tuple

from . import voting


class _Apart(pickle.Pickler):
    """Leaves plain tensors out of a pickle, in order."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: List[Any] = []

    def persistent_id(self, value: Any) -> Any:
        import torch

        if type(value) is not torch.Tensor or value.layout != torch.strided or value.requires_grad or value.is_quantized:
            return None
        self.tensors.append(value)
        return value.dtype, tuple(value.shape), value.device.type


class _Together(pickle.Unpickler):
    """Puts tensors back in the same order: take gives the next one of a form."""

    def __init__(self, data: bytes, take: Callable[[Any], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._take = take

    def persistent_load(self, form: Any) -> Any:
        return self._take(form)


def apart(content: Any) -> Tuple[bytes, List[Any]]:
    """A content without its tensors, and these."""
    file = io.BytesIO()
    pickler = _Apart(file)
    pickler.dump(content)
    return file.getvalue(), pickler.tensors


def give(content: Any, giver: int, takers: List[int], device: str) -> None:
    """Called on the rank that has the state."""
    import torch.distributed as dist

    data, tensors = apart(content)
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    voting.broadcast(total.to_bytes(8, "little") + data, giver, device, _nothing)
    for taker in takers:
        for tensor in tensors:
            if tensor.numel():
                dist.send(_flat(tensor.detach().to(device)), dst=taker)


def take(giver: int, device: str, received: Callable[[int, int], None]) -> Any:
    """Called on a rank that needs the state. What it returns counts only if the group has not failed."""
    import torch
    import torch.distributed as dist

    data = voting.broadcast(None, giver, device, _nothing)
    done, total = 0, int.from_bytes(data[:8], "little")

    def one(form: Any) -> Any:
        nonlocal done
        dtype, shape, kind = form
        tensor = torch.empty(shape, dtype=dtype, device=device)
        if tensor.numel():
            dist.recv(_flat(tensor), src=giver)
            done += tensor.numel() * tensor.element_size()
            received(done, total)
        return tensor if kind == device else tensor.to(kind)

    return _Together(data[8:], one).load()


def watch(giver: int, device: str) -> None:
    """Called on all other ranks."""
    voting.broadcast(None, giver, device, _nothing)


def _flat(tensor: Any) -> Any:
    """The bytes of a tensor, in its own memory."""
    import torch

    tensor = tensor.contiguous().view(-1)
    return (torch.view_as_real(tensor).view(-1) if tensor.is_complex() else tensor).view(torch.uint8)


def _nothing(done: int, total: int) -> None:
    """A pickle without tensors is small."""
