"""Which samples this rank takes in which step.

One permutation per (seed, epoch) orders the samples of an epoch. The cursor counts the
samples that committed steps have taken. A step takes the next global batch after the
cursor, in every world. Only which rank takes which of its samples depends on the world.
The last batch of an epoch is short: nothing is padded and nothing is dropped.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

from .environment import world
from .errors import ElasticError, MismatchError, say, whole_number
from .permutation import Permutation, mix


class Sampler:
    """Lists of indices for this rank, one for each optimizer step.

        for epoch in sampler.epochs(10):
            for indices in sampler:
                ...
                state.end_step()        # or sampler.advance(), without a State
            ...                         # the end of the epoch: schedules, validation

    In the last step of an epoch a rank may have no sample: its list is empty and world.loss_weight is 0.
    A loader that fetches ahead takes batch_sampler().

    rank and size: those of this process among the data-parallel ones, where others compute the same samples with
    it (tensor, pipeline or context parallelism); or mesh, the dimension of a DeviceMesh that is data-parallel.
    """

    def __init__(self, n: int, seed: int = 0, shuffle: bool = True, **data_parallel: Any) -> None:
        self.n = whole_number("n", n, 1)
        self.seed = whole_number("seed", seed, 0)
        self.shuffle = bool(shuffle)
        self.epoch = 0
        self.consumed = 0
        self.total: Optional[int] = None
        """Samples of all epochs of the training, once epochs() knows it."""
        self.iterated = False  # its lists were asked for
        self.dealt = _dealt(data_parallel)
        """Rank and size among the data-parallel processes; None: those of the world."""
        self.course: Any = None  # of the State that it belongs to
        self._in_epochs = False
        self._began = 0  # the generation in which its lists were last asked for
        if world()._weight is None:
            world()._weight = lambda: self.loss_weight
        self._used_up: Optional[Tuple[int, int, int]] = None  # generation and position at which an iteration that ended began
        self._order: Optional[Tuple[int, Permutation]] = None

    # The position.

    @property
    def position(self) -> int:
        """Samples of all epochs and ranks that ended steps have taken."""
        return self.epoch * self.n + self.consumed

    @property
    def rank(self) -> int:
        return self.dealt[0] if self.dealt else world().rank

    @property
    def size(self) -> int:
        return self.dealt[1] if self.dealt else world().size

    @property
    def is_between_epochs(self) -> bool:
        """Whether the code after an epoch runs. The epoch ends when epochs() is asked for the next one."""
        return self._in_epochs and self.consumed == self.n

    def advance(self) -> int:
        """Count the step at hand as done, and return how many samples all ranks took in it."""
        taken = self._length(self.consumed)
        self.consumed += taken
        if self.consumed == self.n and not self._in_epochs:
            self.epoch, self.consumed = self.epoch + 1, 0
        return taken

    def epochs(self, total: int) -> Iterator[int]:
        """Count the epochs that are left of so many, beginning with the one at hand. An epoch ends with the body
        of the loop: an interrupted end of an epoch is made again, and no step of it."""
        self.total = whole_number("total", total, 0) * self.n
        self._in_epochs = True
        try:
            while self.epoch < total:
                yield self.epoch
                if self.consumed == self.n:
                    self.epoch, self.consumed = self.epoch + 1, 0
                    if self.course is not None:
                        self.course.epoch_is_over()
        finally:
            self._in_epochs = False

    # The step at hand.

    @property
    def loss_weight(self) -> float:
        """The factor on the mean loss of this rank's samples; see World.loss_weight."""
        length = self._length(self.consumed)
        return self._share(length) * self.size / length if length else 1.0

    @property
    def has_samples(self) -> bool:
        """Whether this rank has a sample in the step at hand. The first micro-batch is the largest."""
        w = world()
        return self.rank < min(w.global_batch_size // w.accumulation, self.n - self.consumed)

    def split(self, *batch: Any) -> Iterator[Tuple[Any, ...]]:
        """Cut this rank's samples of the step into micro-batches that fit into memory.

            for x, y, weight in sampler.split(xs, ys):
                (loss_function(model(x), y) * weight).backward()

        Each part comes with the exact weight of its mean loss. All ranks have equally many
        parts; in a short step a part may be empty, with weight 0. Anything that can be
        sliced can be cut: a list of indices, a tensor, an array."""
        length = self._length(self.consumed)
        begin = 0
        for chunk in self._chunks(length):
            end = begin + len(chunk)
            yield (*(part[begin:end] for part in batch), len(chunk) * self.size / length)
            begin = end

    # The iteration.

    def __iter__(self) -> Iterator[List[int]]:
        return self._bodies(self._start())

    def __len__(self) -> int:
        """Steps that are left of the epoch."""
        return -(-(self.n - self.consumed) // world().global_batch_size)

    def batch_sampler(self) -> "BatchSampler":
        """The same lists for the DataLoader of torch or Paddle, which may fetch any number of steps ahead:

            loader = DataLoader(data, batch_sampler=sampler.batch_sampler(), num_workers=2)
            for x, y in state.steps(loader):
        """
        return BatchSampler(self)

    def _start(self) -> Tuple[int, int, int]:
        if self.course is not None:
            self.course.begins_epoch()
        self.iterated = True
        start = (world().generation, self.epoch, self.consumed)
        if self._began != start[0] and self.epoch > 0 and not self._in_epochs and world().rank == 0:
            say(
                f"training goes on in epoch {self.epoch} (the first is 0), and the script does not loop over "
                "sampler.epochs(N): a loop over range(N) begins at 0 again, and trains too long"
            )
        self._began = start[0]
        if start == self._used_up:
            raise ElasticError(
                "the sampler went through an epoch without an ended step: "
                "call state.end_step() or sampler.advance() at the end of each step, and take the next epoch from epochs()"
            )
        return start

    def _bodies(self, start: Tuple[int, int, int]) -> Iterator[List[int]]:
        """The lists for a loop whose body is a step."""
        if self.course is None:
            yield from self.lists(start)
        else:
            yield from self.course.steps(self.lists(start))

    def lists(self, start: Tuple[int, int, int]) -> Iterator[List[int]]:
        """The lists from a position to the end of its epoch."""
        _, epoch, cursor = start
        while cursor < self.n:
            yield self.indices(epoch, cursor)
            cursor += self._length(cursor)
        self._used_up = start

    def indices(self, epoch: int, cursor: int) -> List[int]:
        """This rank's samples in the step that begins at a cursor."""
        length = self._length(cursor)
        order = self.order(epoch) if self.shuffle else range(self.n)
        return [order[cursor + i] for chunk in self._chunks(length) for i in chunk]

    def order(self, epoch: int) -> Permutation:
        """The order of an epoch."""
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, Permutation(self.n, self.seed, epoch))
        return self._order[1]

    # Dealing. Of a micro-batch of m samples, rank r takes r, r+size, r+2*size, …

    def _length(self, cursor: int) -> int:
        return min(world().global_batch_size, self.n - cursor)

    def _chunks(self, length: int) -> List[range]:
        w = world()
        rank, size = self.dealt or (w.rank, w.size)
        micro = w.global_batch_size // w.accumulation
        return [range(first + rank, min(first + micro, length), size) for first in range(0, length, micro)]

    def _share(self, length: int) -> int:
        return sum(len(chunk) for chunk in self._chunks(length))

    def seed_of(self, index: int) -> int:
        """A seed for the random numbers of one sample in this epoch: the same in every world, and in a step that is
        made again."""
        return mix(mix(mix(self.seed) ^ self.epoch) ^ index) >> 1

    # Saving.

    def identity(self) -> Dict[str, Any]:
        """What determines the order of the samples."""
        return {"n": self.n, "seed": self.seed, "shuffle": self.shuffle}

    def mark(self) -> Dict[str, Any]:
        """What the launcher shows of the position. An epoch whose samples are all taken counts as the next one."""
        epoch, consumed = divmod(self.position, self.n)
        return {"epoch": epoch, "seed": self.seed, "consumed": consumed, "dataset_size": self.n}

    def state_dict(self) -> Dict[str, Any]:
        return {**self.identity(), "epoch": self.epoch, "consumed": self.consumed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        mine = self.identity()
        theirs = {name: state.get(name) for name in mine}
        if mine != theirs:
            raise MismatchError(
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
        return self._lists(self._sampler._start())

    def _lists(self, start: Tuple[int, int, int]) -> Iterator[List[int]]:
        stand_in = 0
        for indices in self._sampler.lists(start):
            stand_in = indices[0] if indices else stand_in
            yield indices or [stand_in]

    def __len__(self) -> int:
        return len(self._sampler)


def _dealt(options: Dict[str, Any]) -> Optional[Tuple[int, int]]:
    """Rank and size among the data-parallel processes, where the script names them."""
    mesh = options.pop("mesh", None)
    rank, size = options.pop("rank", None), options.pop("size", None)
    if options:
        raise ElasticError(f"Sampler({next(iter(options))}=…): no such argument; rank= and size=, or mesh=")
    if mesh is not None:
        if mesh.ndim != 1:
            raise ElasticError(f"Sampler(mesh=…): {mesh.ndim} dimensions; give the data-parallel one, as mesh['dp']")
        rank, size = mesh.get_local_rank(), mesh.size()
    if rank is None and size is None:
        return None
    size = whole_number("size", size, 1)
    rank = whole_number("rank", rank, 0)
    if rank >= size:
        raise ElasticError(f"rank={rank} of size={size}: ranks are 0 to {size - 1}")
    return rank, size


def _words(values: Dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
