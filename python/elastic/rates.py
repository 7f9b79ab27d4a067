"""The rate of a world in an optimizer of torch, and in its schedules."""

from __future__ import annotations

import gc
import math
import re
import sys
from typing import Any, Dict, List

from .errors import ElasticError, say

BASE = "elastic_base"
"""In a group of parameters: its rate as the script made it. A checkpoint of the optimizer has it, too."""
APPLIED = "elastic_scale"
"""In a group of parameters, in a schedule, and in the optimizer: how many times the script's rates it has now."""
GIVEN = "elastic_given"
"""In an optimizer without a schedule: the rate of its first group as it was set here."""
SCALED = ("initial_lr", "max_lr", "min_lr")
"""Rates in a group of parameters that a schedule computes with."""
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
    say(
        f"the rate of {kind} is scaled linearly; the usual rule for adaptive optimizers is the square root: "
        "--scaling=sqrt"
    )
    return True


def set_rate(optimizer: Any, rate: float, factor: float) -> float:
    """Give each group its part of a rate. The first group has the rate itself."""
    groups = optimizer.param_groups
    for group in groups:
        if "initial_lr" in group and "max_lr" in group and APPLIED not in group:
            group[BASE] = group["max_lr"]  # OneCycleLR counts its peak
        group.setdefault(BASE, float(group.get("initial_lr", group["lr"])))
    if "initial_lr" not in groups[0] and groups[0]["lr"] != getattr(optimizer, GIVEN, None) and _schedules(optimizer):
        for group in groups:  # ReduceLROnPlateau does not write it
            group["initial_lr"] = group[BASE] * getattr(optimizer, APPLIED, 1.0)
    first = groups[0][BASE]
    scale = rate / first if first else 1.0
    if "initial_lr" in groups[0]:
        _scale(optimizer, scale)
        return float(groups[0]["lr"])
    for group in groups:
        _put(group, "lr", rate * factor * (group[BASE] / first if first else 1.0))
    setattr(optimizer, APPLIED, scale)
    setattr(optimizer, GIVEN, float(groups[0]["lr"]))
    return rate * factor


def _scale(optimizer: Any, scale: float) -> None:
    """Make the schedules of an optimizer go at so many times the rates of the script. Each group and each schedule has
    its own scale: one that was made late, or that no checkpoint holds, is not where the others are."""
    groups = optimizer.param_groups
    seen = [getattr(optimizer, APPLIED, 0.0), *(group.get(APPLIED, 0.0) for group in groups)]
    if all(math.isclose(one, scale, rel_tol=1e-12) for one in seen):
        return
    schedules = _schedules(optimizer)
    for one in schedules:
        if type(one).__name__ not in KNOWN or not type(one).__module__.startswith("torch."):
            raise ElasticError(
                f"world.set_lr() cannot scale the schedule {type(one).__name__}, whose rates it does not know: compute the "
                "factor of the step in the script, and call world.set_lr(optimizer, factor) without a schedule"
            )
    for group in groups:
        begin = group.setdefault("initial_lr", group["lr"])
        made = 1.0 if "max_lr" in group or not group[BASE] else float(begin) / float(group[BASE])  # after a set_lr(): not 1
        more = scale / group.get(APPLIED, made)
        for name in ("lr", *SCALED):
            if name in group:
                _put(group, name, group[name] * more)
        group[APPLIED] = scale
    for one in schedules:
        if isinstance(getattr(one, "base_lrs", None), list):
            one.base_lrs = [group["initial_lr"] for group in groups[: len(one.base_lrs)]]
        more = scale / getattr(one, APPLIED, 1.0)
        if isinstance(getattr(one, "min_lrs", None), list):
            one.min_lrs = [low * more for low in one.min_lrs]
        if isinstance(getattr(one, "eta_min", None), (int, float)):
            one.eta_min *= more
        setattr(one, APPLIED, scale)
    setattr(optimizer, APPLIED, scale)


def freeze() -> None:
    """Take what there is out of the collector's scans. Its schedules are kept: a frozen object is not found any more."""
    gc.collect()
    _frozen.extend(one for one in gc.get_objects() if _is_schedule(one))
    gc.freeze()


def thaw() -> None:
    """End freeze(). At the end of the process Python frees what it collects, and not what is frozen: nanobind, in
    torch 2.15, would list that as leaked."""
    gc.unfreeze()
    _frozen.clear()


_frozen: List[Any] = []
"""The schedules that are frozen."""


def _schedules(optimizer: Any) -> List[Any]:
    """The schedules of an optimizer, each once."""
    found = {id(one): one for one in _frozen if one.optimizer is optimizer}
    for one in gc.get_referrers(optimizer):
        for owner in gc.get_referrers(one) if isinstance(one, dict) else [one]:
            if _is_schedule(owner) and owner.optimizer is optimizer:
                found[id(owner)] = owner
    return list(found.values())


def _is_schedule(one: Any) -> bool:
    if not hasattr(type(one), "step"):
        return False
    kind = getattr(sys.modules.get("torch.optim.lr_scheduler"), "LRScheduler", None)
    return hasattr(one, "optimizer") and (hasattr(one, "last_epoch") or kind is not None and isinstance(one, kind))


def _put(group: Dict[str, Any], name: str, value: Any) -> None:
    """Set a rate, which may be a tensor that a compiled step reads."""
    if hasattr(group[name], "fill_"):
        group[name].fill_(float(value))
    else:
        group[name] = value
