"""The world that this process is a rank of."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Mapping, Optional, Tuple

from . import rates
from .errors import ElasticError

DEFAULT_BATCH_SIZE = 32
DEFAULT_LR = 0.1


@dataclass
class World:
    """What a rank needs to know about its world.

    Under `elastic run` the values are those of the generation. Under torchrun, Paddle's
    launcher and plain python, values that only elastic knows are those of an
    undisturbed run.

    rank, size                this process among those of all nodes
    local_rank, local_size    this process among those of its node
    node_rank, nodes          this node among all
    generation                counts the worlds of the job, from 1
    previous_size             the size of the world before; 0: there was none
    job, node                 their names
    batch_size                samples of all ranks in one optimizer step
    accumulation              micro-batches of one optimizer step
    micro_batch_size          samples of this rank in one micro-batch
    lr, set_lr(optimizer)     the learning rate of the step at hand
    loss_weight               the factor on this rank's mean loss
    lr_scale                  the rate of this world over that of the base world, after a warm-up
    target_lr                 the rate of this world after a warm-up
    full_loss_weight          loss_weight of a whole batch; the last one of an epoch may be shorter
    scaling                   the launcher's rule for batch and rate; "": it has none
    warmup_begin              the sample at which the warm-up begins; it takes warmup_samples, and
                              begins with warmup_lr_scale
    resume_from               the committed checkpoint to load, a file or a directory; None: none
    resume_step               its step; None: not known
    checkpoint_dir            where checkpoints are saved
    progress_file             where the helper reports steps
    drain_file                is there when the workers shall save and end
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    node_rank: int = 0
    nodes: int = 1
    generation: int = 1
    previous_size: int = 0
    job: str = ""
    node: str = ""
    batch_size: int = DEFAULT_BATCH_SIZE
    accumulation: int = 1
    micro_batch_size: int = DEFAULT_BATCH_SIZE
    lr_scale: float = 1.0
    resume_from: Optional[str] = None
    resume_step: Optional[int] = None
    checkpoint_dir: Optional[str] = None
    progress_file: Optional[str] = None
    drain_file: Optional[str] = None
    scaling: str = ""
    warmup_begin: int = 0
    warmup_samples: int = 0
    warmup_lr_scale: float = 1.0
    target_lr: float = DEFAULT_LR
    full_loss_weight: float = 1.0

    _samples: Optional[Callable[[], int]] = field(default=None, repr=False, compare=False)
    _said: bool = field(default=False, repr=False, compare=False)  # that the rule is not usual
    _weight: Optional[Callable[[], float]] = field(default=None, repr=False, compare=False)

    @property
    def global_batch_size(self) -> int:
        """batch_size, as the launcher's variable calls it."""
        return self.batch_size

    @property
    def loss_weight(self) -> float:
        """The factor on the mean loss of this rank's samples in the current step. With it the
        plain average over ranks is the mean over the global batch. It is exactly 1 if all
        ranks have equally many samples, and 0 for a rank that has none."""
        return self._weight() if self._weight else self.full_loss_weight

    @property
    def lr(self) -> float:
        """The learning rate of the step at hand."""
        return self.target_lr * self._scale() / self.lr_scale

    def set_lr(self, optimizer: Any, factor: float = 1.0) -> float:
        """Give the optimizer the rate of the step at hand, times the factor of a schedule. Groups of parameters keep
        the ratios of their rates. If the optimizer has a schedule of torch, that is scaled, and goes on.

        Loading a checkpoint restores the rate of the world that saved it, so call this
        before each step, or at least after state.load()."""
        if not hasattr(optimizer, "param_groups"):
            optimizer.set_lr(self.lr * factor)
            return self.lr * factor
        if self.scaling == "linear" and self.lr_scale != 1.0 and self.rank == 0 and not self._said:
            self._said = rates.say_of_adaptive(optimizer)
        return rates.set_rate(optimizer, self.lr, factor)

    def _scale(self) -> float:
        if self.warmup_samples == 0 or self._samples is None:
            return self.lr_scale
        done = (self._samples() - self.warmup_begin) / self.warmup_samples
        low, high = self.warmup_lr_scale, self.lr_scale
        return low + (high - low) * min(max(done, 0.0), 1.0)

    @property
    def managed(self) -> bool:
        """Whether `elastic run` started this process."""
        return self.drain_file is not None


def read(
    variables: Mapping[str, str],
    batch_size: Optional[int] = None,
    lr: Optional[float] = None,
) -> World:
    """Make the World that the variables describe. batch_size (samples that all workers
    take in a step) and lr are the script's own. They are used if the launcher sets none."""
    env = _Variables(variables)
    own_batch = DEFAULT_BATCH_SIZE if batch_size is None else _at_least_one("batch_size", batch_size)
    own_lr = DEFAULT_LR if lr is None else _positive("lr", lr)
    world = World(
        rank=env.whole(0, "RANK", "PADDLE_TRAINER_ID"),
        size=env.whole(1, "WORLD_SIZE", "PADDLE_TRAINERS_NUM"),
        local_rank=env.whole(0, "LOCAL_RANK", "PADDLE_RANK_IN_NODE"),
        local_size=env.whole(1, "LOCAL_WORLD_SIZE", "PADDLE_LOCAL_SIZE"),
        node_rank=env.whole(0, "GROUP_RANK", "NODE_RANK"),
        nodes=env.whole(1, "GROUP_WORLD_SIZE", "NNODES", "PADDLE_NNODES"),
        generation=env.whole(env.whole(0, "TORCHELASTIC_RESTART_COUNT") + 1, "ELASTIC_GENERATION"),
        previous_size=env.whole(0, "ELASTIC_PREVIOUS_WORLD_SIZE"),
        job=env.text("ELASTIC_JOB_ID") or "",
        node=env.text("ELASTIC_NODE") or "",
        accumulation=env.whole(1, "ELASTIC_GRAD_ACCUM_STEPS"),
        lr_scale=env.number(1.0, "ELASTIC_LR_SCALE"),
        resume_from=env.text("ELASTIC_RESUME_FROM"),
        resume_step=env.whole(0, "ELASTIC_RESUME_STEP") or None,
        checkpoint_dir=env.text("ELASTIC_CHECKPOINT_DIR"),
        progress_file=env.text("ELASTIC_PROGRESS_FILE"),
        drain_file=env.text("ELASTIC_DRAIN_FILE"),
        scaling=env.text("ELASTIC_SCALING") or "",
        warmup_begin=env.whole(0, "ELASTIC_WARMUP_BEGIN"),
        warmup_samples=env.whole(0, "ELASTIC_WARMUP_SAMPLES"),
        warmup_lr_scale=env.number(1.0, "ELASTIC_WARMUP_LR_SCALE"),
        full_loss_weight=env.number(1.0, "ELASTIC_LOSS_WEIGHT"),
    )
    without = own_batch if batch_size is not None else own_batch * world.size
    world.batch_size = env.whole(without, "ELASTIC_GLOBAL_BATCH_SIZE")
    follows = batch_size is None or env.text("ELASTIC_GLOBAL_BATCH_SIZE") is not None
    world.target_lr = env.number(own_lr * (world.lr_scale if follows else 1.0), "ELASTIC_LR")
    _check(world)
    share = len(range(world.rank, world.batch_size // world.accumulation, world.size))
    world.micro_batch_size = env.whole(share, "ELASTIC_BATCH_SIZE")
    return world


def _check(w: World) -> None:
    if not 0 <= w.rank < w.size:
        raise ElasticError(f"RANK={w.rank} in a world of WORLD_SIZE={w.size}: ranks are 0 to {w.size - 1}")
    if w.global_batch_size % w.accumulation:
        raise ElasticError(f"a global batch of {w.global_batch_size} in {w.accumulation} micro-batches: not whole")
    if w.global_batch_size // w.accumulation < w.size:
        raise ElasticError(
            f"a global batch of {w.global_batch_size} in {w.accumulation} micro-batches for {w.size} ranks: "
            "each needs a sample; give a larger batch"
        )


class _Variables:
    """An environment, read as numbers; the first name that is set counts."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def text(self, *names: str) -> Optional[str]:
        return next((self._variables[n] for n in names if self._variables.get(n)), None)

    def whole(self, otherwise: int, *names: str) -> int:
        for name in names:
            value = self._variables.get(name)
            if value:
                if not value.isdigit():
                    raise ElasticError(f"{name}={value}: not a whole number; the launcher sets it")
                return int(value)
        return otherwise

    def number(self, otherwise: float, name: str) -> float:
        value = self._variables.get(name)
        if not value:
            return otherwise
        try:
            return _positive(name, float(value)) if float(value) else 0.0
        except ValueError:
            raise ElasticError(f"{name}={value}: not a number; the launcher sets it") from None


def _positive(name: str, value: float) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ElasticError(f"{name}={value!r}: a number above 0")
    return float(value)


def _at_least_one(name: str, value: int) -> int:
    from .errors import whole_number

    return whole_number(name, value, 1)


_current: Optional[World] = None
_own: Tuple[Optional[int], Optional[float]] = (None, None)
"""The values that the script gave: batch_size, lr."""


def world(batch_size: Optional[int] = None, lr: Optional[float] = None) -> World:
    """The world of this process: the same object at every call.

    batch_size, the samples that all workers take in a step, and lr are used where
    `elastic run` has no --batch-size and no --lr, and outside of it. A batch of the script is the same in every
    world, and so is its rate then."""
    global _current, _own
    if batch_size is not None or lr is not None:
        _own = (batch_size, lr)
    if _current is None or batch_size is not None or lr is not None:
        fresh = read(os.environ, batch_size, lr)
        if _current is None:
            _current = fresh
        else:  # code that holds the object sees the values of the script
            for name in ("batch_size", "micro_batch_size", "target_lr", "lr_scale"):
                setattr(_current, name, getattr(fresh, name))
    return _current


def renew() -> World:
    """Read the environment again: this process goes on in another world. Code that holds the World
    object sees the new one."""
    current = world()
    fresh = read(os.environ, *_own)
    for one in fields(World):
        if not one.name.startswith("_"):
            setattr(current, one.name, getattr(fresh, one.name))
    return current
