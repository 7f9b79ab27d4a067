"""Whether all ranks have the same state. In data-parallel training they must, and one that differs would
train on without a message.

A fingerprint is the sum of the bits of all parameters and of the state of the optimizers, with the rates, the
schedules and the position in the data. Buffers differ by design (the averages of BatchNorm), and plain
values are the script's.
"""

from __future__ import annotations

import struct
import sys
import zlib
from typing import Any, Dict, List, Optional, Tuple

from . import contents
from .copying import is_tensor
from .freezing import Frozen
from .once import Once
from .permutation import mix

ROUNDING = 1e-4
"""Differences of a tensor below this part of its size may be rounding on unequal processors."""
_MASK = (1 << 62) - 1


def of(values: Dict[str, Any], place: Tuple[int, int]) -> int:
    """The fingerprint of the state at a place: its step and epoch."""
    total = mix(place[0] << 20 ^ place[1])
    for name, part in parts(values):
        total = mix(total ^ _sum(part) ^ zlib.crc32(name.encode()))
    return total & _MASK


def parts(values: Dict[str, Any]) -> List[Tuple[str, Any]]:
    """The numbers and tensors that must be equal, by name."""
    found: List[Tuple[str, Any]] = []
    for name, value in values.items():
        value = contents.bare(value)
        if hasattr(value, "named_parameters") and hasattr(value, "named_modules"):
            found += [(f"{name}.{key}", parameter) for key, parameter in value.named_parameters()]
        elif hasattr(value, "param_groups"):
            _collect(name, value.state_dict(), found)
        elif hasattr(value, "last_epoch") or hasattr(value, "epochs") or isinstance(value, (Once, Frozen)):
            _collect(name, value.state_dict(), found)
    return found


def _collect(name: str, value: Any, found: List[Tuple[str, Any]]) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            _collect(f"{name}.{key}", part, found)
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            _collect(f"{name}.{number}", part, found)
    elif isinstance(value, (bool, int, float, str)) or is_tensor(value):
        found.append((name, value))


def _sum(value: Any) -> int:
    """The bits of a value, as a number."""
    if isinstance(value, float):
        return int(struct.unpack("=q", struct.pack("=d", value))[0]) & _MASK
    if isinstance(value, str):
        return zlib.crc32(value.encode())
    if isinstance(value, int):
        return value & _MASK
    torch = sys.modules["torch"]
    tensor = value.detach()
    if tensor.layout != torch.strided or tensor.is_quantized:
        return 0
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.is_floating_point():
        width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
        tensor = tensor.view(width)
    return int(tensor.sum(dtype=torch.int64).item()) & _MASK


def sizes(values: Dict[str, Any]) -> Dict[str, Tuple[float, float]]:
    """The sum of each part, and that of its absolute values."""
    result = {}
    for name, part in parts(values):
        if is_tensor(part):
            wide = part.detach().double() if not part.is_complex() else part.detach().abs().double()
            result[name] = (float(wide.sum()), float(wide.abs().sum()))
        elif not isinstance(part, str):
            result[name] = (float(part), 0.0)
    return result


def difference(ranks: List[Dict[str, Tuple[float, float]]]) -> Optional[str]:
    """What differs between rank 0 and another rank, in words; None: rounding alone."""
    for rank, theirs in enumerate(ranks):
        for name, (value, size) in ranks[0].items():
            other = theirs.get(name)
            if other is None:
                return f"rank {rank} has no {name}"
            both_nan = other[0] != other[0] and value != value
            if not both_nan and not abs(other[0] - value) <= ROUNDING * max(size, other[1]):
                return f"{name} is {other[0]:.9g} on rank {rank} and {value:.9g} on rank 0"
        more = [name for name in theirs if name not in ranks[0]]
        if more:
            return f"rank 0 has no {more[0]}"
    return None
