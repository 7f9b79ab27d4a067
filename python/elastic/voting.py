"""Which rank's state a world goes on from.

Each rank reports the place of its state and a fingerprint, or that it has none. The lowest rank with the
newest place gives its state to those that have an older or another one. If none has a state, the committed
checkpoint is loaded; if there is none, training begins from scratch.

In data-parallel training every rank has the whole state. When a collective fails some ranks may
have finished the step at hand and others not: those that finished have a valid state, because the
reduction was complete. So no step is lost and none is counted twice.
"""

from __future__ import annotations

import io
from typing import Any, Callable, List, Optional, Sequence, Tuple

CHUNK = 32 << 20
"""Bytes of a state that one broadcast carries."""


Place = Optional[Sequence[int]]
"""Step and epoch of a rank's state; None: it has none."""


def source(places: List[Place]) -> Optional[int]:
    """The rank that gives its state, for the places of all ranks; None: no rank has one."""
    newest = max((list(place) for place in places if place is not None), default=None)
    return next((rank for rank, place in enumerate(places) if place is not None and list(place) == newest), None)


def behind(places: List[Place], checkpoint: Optional[int]) -> bool:
    """Whether no rank has a state that is as new as the committed checkpoint. That happens if the rank that
    saved it is lost, and had finished a step in which the others were interrupted."""
    newest = max((place[0] for place in places if place is not None), default=None)
    return newest is None or newest < (checkpoint or 0)


def takers(places: List[Place], prints: List[Optional[int]]) -> List[int]:
    """The ranks whose state is older than that of the source, or differs from it."""
    giver = source(places)
    if giver is None:
        return []
    newest = (list(places[giver] or ()), prints[giver])
    return [rank for rank, place in enumerate(places) if place is None or (list(place), prints[rank]) != newest]


def pack(content: Any) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    import torch

    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)
    except TypeError:  # torch before 1.13 has no such argument
        return torch.load(io.BytesIO(data), map_location="cpu")


def broadcast(data: Optional[bytes], giver: int, device: str, received: Callable[[int, int], None]) -> bytes:
    """Give every rank the bytes of one rank, in chunks. After each chunk, received gets the number of
    bytes that are here, and of all."""
    import torch
    import torch.distributed as dist

    size = torch.tensor([len(data) if data is not None else 0], dtype=torch.int64, device=device)
    dist.broadcast(size, src=giver)
    total = int(size.item())
    whole = torch.empty(total, dtype=torch.uint8)
    if data is not None:
        whole = torch.frombuffer(bytearray(data), dtype=torch.uint8) if total else whole
    for begin, end in chunks(total):
        part = whole[begin:end].to(device)
        dist.broadcast(part, src=giver)
        if data is None:
            whole[begin:end].copy_(part)
            received(end, total)
    return bytes(whole.numpy().tobytes()) if data is None else data


def chunks(total: int) -> List[Tuple[int, int]]:
    """Where each chunk of so many bytes begins and ends."""
    return [(begin, min(begin + CHUNK, total)) for begin in range(0, total, CHUNK)]
