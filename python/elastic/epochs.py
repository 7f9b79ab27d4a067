"""An epoch as micro-batches, for trainers that count steps and loaders by themselves.

Such a trainer goes on at an optimizer step, and all else follows from its number, because
the global batch is the same in every world: the epoch, and the samples of the step.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

from .environment import world
from .errors import ElasticError
from .sampler import Sampler


class Epochs:
    """The batch sampler of a DataLoader: this rank's micro-batches of one whole epoch, equally many on all ranks.

    A micro-batch without a sample has one of another rank as a stand-in, with weight 0; as
    ~index where stand_ins are marked."""

    def __init__(self, n: int, seed: int, shuffle: bool = True, mark_stand_ins: bool = False) -> None:
        self._sampler = Sampler(n, seed, shuffle)
        self._mark = mark_stand_ins
        self.steps = -(-n // world().global_batch_size)
        """Optimizer steps of an epoch."""
        self.sampler = self  # where trainers look for set_epoch
        self._begin = (0, 0)  # epoch and step in it with which the next iteration begins

    def set_epoch(self, epoch: int) -> None:
        self._sampler.epoch = epoch

    def begin_at(self, step: int) -> None:
        """Go to an optimizer step, counted from the first epoch: its epoch is iterated from there on."""
        self._begin = divmod(step, self.steps)
        self._sampler.epoch = self._begin[0]

    def __len__(self) -> int:
        return self.steps * world().accumulation

    def __iter__(self) -> Iterator[List[int]]:
        epoch = self._sampler.epoch
        first = self._begin[1] if epoch == self._begin[0] else 0
        for step in range(first, self.steps):
            self._go_to(epoch, step)
            stand_in = self._sampler.order(epoch)[0]
            for part, _ in self._parts():
                yield part or [~stand_in if self._mark else stand_in]

    def weights(self, step: int) -> List[float]:
        """The factors on the mean losses of this rank's micro-batches in an optimizer step, counted from the
        first epoch."""
        self._go_to(*divmod(step, self.steps))
        return [weight for _, weight in self._parts()]

    def _parts(self) -> List[Tuple[List[int], float]]:
        """This rank's micro-batches of a step, as many in the short one at the end of an epoch as in the others: the
        trainer counts them."""
        sampler = self._sampler
        parts = list(sampler.split(sampler.indices(sampler.epoch, sampler.consumed)))
        return parts + [([], 0.0)] * (world().accumulation - len(parts))

    def position(self, step: int) -> Dict[str, int]:
        """Where the data are after so many optimizer steps, for the mark of a save."""
        n, batch = self._sampler.n, world().global_batch_size
        epoch, inside = divmod(step, self.steps)
        consumed = inside * batch
        return {"samples": epoch * n + consumed, "epoch": epoch, "consumed": consumed, **self.terms()}

    def terms(self) -> Dict[str, int]:
        """What must be as it was, so that a step has the same samples."""
        return {"seed": self._sampler.seed, "dataset_size": self._sampler.n, "global_batch": world().global_batch_size}

    def check(self, saved: Any) -> None:
        """Refuse a checkpoint whose steps had other samples."""
        for name, now in self.terms().items():
            if isinstance(saved, dict) and saved.get(name, now) != now:
                raise ElasticError(
                    f"the checkpoint was made with {name}={saved[name]}, this world has {now}: steps would not have "
                    "the same samples; run with --batch-size=N --scaling=fixed-batch, and the same data and seed"
                )

    def _go_to(self, epoch: int, step: int) -> None:
        self._sampler.epoch, self._sampler.consumed = epoch, step * world().global_batch_size
