"""Which samples this rank takes in which step.

One permutation per (seed, epoch) orders the samples of an epoch. The cursor counts the
samples that committed steps have taken. A step takes the next global batch after the
cursor, in every world. Only which rank takes which of its samples depends on the world.
The last batch of an epoch is short: nothing is padded and nothing is dropped.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

from .environment import World, world
from .errors import ElasticError, LoadError, whole_number
from .permutation import Permutation


class Sampler:
    """Lists of indices for this rank, one for each optimizer step.

        for epoch in sampler.epochs(10):
            for indices in sampler:
                ...
                state.commit()          # or sampler.advance(), without a State

    The position moves with commit() and not with the iteration, so a loader may fetch
    any number of steps ahead. In the last step of an epoch a rank may have no sample: its
    list is empty and world.loss_weight is 0.
    """

    def __init__(self, n: int, seed: int = 0, shuffle: bool = True) -> None:
        self.n = whole_number("n", n, 1)
        self.seed = whole_number("seed", seed, 0)
        self.shuffle = bool(shuffle)
        self.epoch = 0
        self.consumed = 0
        self.total: Optional[int] = None
        """Samples of all epochs of the training, once epochs() knows it."""
        self._used_up: Optional[Tuple[int, int, int]] = None  # generation and position at which an iteration that ended began
        self._order: Optional[Tuple[int, Permutation]] = None

    # The position.

    @property
    def position(self) -> int:
        """Samples of all epochs and ranks that committed steps have taken."""
        return self.epoch * self.n + self.consumed

    def advance(self) -> int:
        """Count the step at hand as done, and return how many samples all ranks took in it."""
        taken = self._length(self.consumed)
        self.consumed += taken
        if self.consumed == self.n:
            self.epoch, self.consumed = self.epoch + 1, 0
        return taken

    def epochs(self, total: int) -> Iterator[int]:
        """Count the epochs that are left of so many, beginning with the one at hand."""
        self.total = whole_number("total", total, 0) * self.n
        while self.epoch < total:
            yield self.epoch

    # The step at hand.

    @property
    def loss_weight(self) -> float:
        """The factor on the mean loss of this rank's samples; see World.loss_weight."""
        w, length = world(), self._length(self.consumed)
        return self._share(w, length) * w.size / length

    @property
    def has_samples(self) -> bool:
        """Whether this rank has a sample in the step at hand. The first micro-batch is the largest."""
        w = world()
        return w.rank < min(w.global_batch_size // w.accumulation, self.n - self.consumed)

    def split(self, *batch: Any) -> Iterator[Tuple[Any, ...]]:
        """Cut this rank's samples of the step into micro-batches that fit into memory.

            for x, y, weight in sampler.split(xs, ys):
                (loss_function(model(x), y) * weight).backward()

        Each part comes with the exact weight of its mean loss. All ranks have equally many
        parts; in a short step a part may be empty, with weight 0. Anything that can be
        sliced can be cut: a list of indices, a tensor, an array."""
        w, length = world(), self._length(self.consumed)
        begin = 0
        for chunk in self._chunks(w, length):
            end = begin + len(chunk)
            yield (*(part[begin:end] for part in batch), len(chunk) * w.size / length)
            begin = end

    # The iteration.

    def __iter__(self) -> Iterator[List[int]]:
        start = (world().generation, self.epoch, self.consumed)
        if start == self._used_up:
            raise ElasticError(
                "the sampler went through an epoch without a committed step: "
                "call state.commit() or sampler.advance() at the end of each step"
            )
        return self._lists(start)

    def __len__(self) -> int:
        """Steps that are left of the epoch."""
        return -(-(self.n - self.consumed) // world().global_batch_size)

    def batch_sampler(self) -> "BatchSampler":
        """The same lists for the DataLoader of torch or Paddle:

            DataLoader(data, batch_sampler=sampler.batch_sampler(), num_workers=2)
        """
        return BatchSampler(self)

    def _lists(self, start: Tuple[int, int, int]) -> Iterator[List[int]]:
        _, epoch, cursor = start
        while cursor < self.n:
            yield self.indices(epoch, cursor)
            cursor += self._length(cursor)
        self._used_up = start

    def indices(self, epoch: int, cursor: int) -> List[int]:
        """This rank's samples in the step that begins at a cursor."""
        length = self._length(cursor)
        order = self.order(epoch) if self.shuffle else range(self.n)
        return [order[cursor + i] for chunk in self._chunks(world(), length) for i in chunk]

    def order(self, epoch: int) -> Permutation:
        """The order of an epoch."""
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, Permutation(self.n, self.seed, epoch))
        return self._order[1]

    # Dealing. Of a micro-batch of m samples, rank r takes r, r+size, r+2*size, …

    def _length(self, cursor: int) -> int:
        return min(world().global_batch_size, self.n - cursor)

    @staticmethod
    def _chunks(w: World, length: int) -> List[range]:
        micro = w.global_batch_size // w.accumulation
        return [range(first + w.rank, min(first + micro, length), w.size) for first in range(0, length, micro)]

    def _share(self, w: World, length: int) -> int:
        return sum(len(chunk) for chunk in self._chunks(w, length))

    # Saving.

    def identity(self) -> Dict[str, Any]:
        """What determines the order of the samples."""
        return {"n": self.n, "seed": self.seed, "shuffle": self.shuffle}

    def state_dict(self) -> Dict[str, Any]:
        return {**self.identity(), "epoch": self.epoch, "consumed": self.consumed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        mine = self.identity()
        theirs = {name: state.get(name) for name in mine}
        if mine != theirs:
            raise LoadError(
                f"the checkpoint is of a sampler with {_words(theirs)}; this one has {_words(mine)}. "
                "Its position means nothing in another order: use the same values, or start a new job"
            )
        self.epoch, self.consumed = int(state["epoch"]), int(state["consumed"])
        self._used_up = None


class BatchSampler:
    """A Sampler for loaders, which refuse an empty batch. A rank that has no sample in a step
    gets one of another rank's as a stand-in. Its weight is 0."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __iter__(self) -> Iterator[List[int]]:
        stand_in = 0
        for indices in self._sampler:
            stand_in = indices[0] if indices else stand_in
            yield indices or [stand_in]

    def __len__(self) -> int:
        return len(self._sampler)


def _words(values: Dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())

