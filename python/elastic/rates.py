"""The rate of a world in an optimizer of torch, and in its schedules."""

from __future__ import annotations

import re
import sys
from typing import Any, Dict, List

from .errors import ElasticError

BASE = "elastic_base"
"""In a group of parameters: its rate as the script made it. A checkpoint of the optimizer has it, too."""
APPLIED = "elastic_scale"
"""In a group of parameters: how many times the script's rates its schedule goes at now."""
SCALED = ("initial_lr", "max_lr", "min_lr")
"""Rates in a group of parameters that a schedule computes with."""
LISTS = ("base_lrs", "max_lrs", "min_lrs")
"""The same, in a schedule."""
KNOWN = (
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR",
    "LambdaLR", "LinearLR", "MultiplicativeLR", "MultiStepLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau",
    "SequentialLR", "StepLR",
)  # fmt: skip
"""Schedules of torch all of whose rates are scaled here."""


ADAPTIVE = re.compile(r"(Adam|Adagrad|Adadelta|Adafactor|RMSprop|Lamb|Lion|Prodigy|Sophia|Shampoo|SOAP)", re.IGNORECASE)
"""Names of optimizers that divide a gradient by its size."""


def say_of_adaptive(optimizer: Any) -> bool:
    """Say that the rule of an adaptive optimizer is the square root. False: it is no such optimizer."""
    kind = next((kind.__name__ for kind in type(optimizer).__mro__ if ADAPTIVE.match(kind.__name__)), None)
    if kind is None:
        return False
    print(
        f"elastic: the rate of {kind} is scaled linearly; the usual rule for adaptive optimizers is the square root: "
        "--scaling=sqrt",
        file=sys.stderr,
    )
    return True


def set_rate(optimizer: Any, rate: float, factor: float) -> float:
    """Give each group its part of a rate. The first group has the rate itself."""
    groups = optimizer.param_groups
    for group in groups:
        group.setdefault(BASE, group.get("max_lr", group.get("initial_lr", group["lr"])))  # OneCycleLR counts its peak
    first = groups[0][BASE]
    if "initial_lr" in groups[0]:
        _scale(optimizer, rate / first if first else 1.0)
        return float(groups[0]["lr"])
    for group in groups:
        _put(group, "lr", rate * factor * (group[BASE] / first if first else 1.0))
    return rate * factor


def _scale(optimizer: Any, scale: float) -> None:
    """Make the schedules of an optimizer go at so many times the rates of the script."""
    more = scale / optimizer.param_groups[0].get(APPLIED, 1.0)
    if abs(more - 1.0) < 1e-12:
        return
    found = _schedules(optimizer)
    for one in found:
        if type(one).__name__ not in KNOWN or not type(one).__module__.startswith("torch."):
            raise ElasticError(
                f"world.set_lr() cannot scale the schedule {type(one).__name__}, whose rates it does not know: compute the "
                "factor of the step in the script, and call world.set_lr(optimizer, factor) without a schedule"
            )
        for name in LISTS:
            if isinstance(getattr(one, name, None), list):
                setattr(one, name, [rate * more for rate in getattr(one, name)])
        if isinstance(getattr(one, "eta_min", None), (int, float)):
            one.eta_min *= more
    for group in optimizer.param_groups:
        for name in ("lr", *SCALED):
            if name in group:
                _put(group, name, group[name] * more)
        group[APPLIED] = scale


def _schedules(optimizer: Any) -> List[Any]:
    """The schedules of an optimizer, each once."""
    import gc

    kind = getattr(sys.modules.get("torch.optim.lr_scheduler"), "LRScheduler", None)
    found: Dict[int, Any] = {}
    for one in gc.get_referrers(optimizer):
        owners = gc.get_referrers(one) if isinstance(one, dict) else [one]
        for owner in owners:
            if getattr(type(owner), "step", None) and getattr(owner, "optimizer", None) is optimizer:
                if hasattr(owner, "last_epoch") or kind is not None and isinstance(owner, kind):
                    found[id(owner)] = owner
    return list(found.values())


def _put(group: Dict[str, Any], name: str, value: Any) -> None:
    """Set a rate, which may be a tensor that a compiled step reads."""
    if hasattr(group[name], "fill_"):
        group[name].fill_(float(value))
    else:
        group[name] = value
