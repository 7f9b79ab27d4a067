"""What samplers of data-parallel training do when the world changes.

    python3 compare.py [--sequences N] [--horovod DIRECTORY]

Each sequence is two epochs of a small data set under random worlds of one to four ranks, with
random commits and kills. Every sampler gets the same sequences, is used as its own documents
say, and must use each sample of an epoch in exactly one step that counts.

elastic is always there. accelerate and torchdata are compared where they are installed. Horovod
does not build on every machine: its sampler alone is loaded, from an unpacked source archive
(pip download --no-deps --no-binary :all: horovod), with its rank and size played by this script.
"""

import argparse
import collections
import contextlib
import importlib.util
import pathlib
import random
import sys
import types

from elastic import Sampler, environment

EPOCHS = 2
GLOBAL = 12
"""Samples of a step where the global batch stays: 1, 2, 3 and 4 divide it, as others demand."""
PER_RANK = 3
"""Samples of a rank in a step where the global batch follows the world."""


class Stretch:
    """The steps of one world between two changes of the world."""

    def __init__(self, chance):
        self.size = chance.randint(1, 4)
        self.commits = [chance.random() < 0.3 for _ in range(chance.randint(1, 6))]
        self.killed = chance.random() < 0.5


class Sequence:
    """What happens to one job. It goes on until the epochs are through."""

    def __init__(self, number, fixed):
        chance = random.Random(number)
        self.n = chance.randint(GLOBAL, 60)
        self.seed = chance.randrange(1000)
        self.fixed = fixed
        self.stretches = (Stretch(chance) for _ in iter(int, 1))

    def batch(self, size):
        """Samples of a rank in a full step."""
        return GLOBAL // size if self.fixed else PER_RANK


# Each sampler is a class: ranks(size) are the iterators over the batches of the ranks, from its
# position on; stepped() counts a step; ended() ends the epoch; state and load save and restore all
# of it, the epoch too.


class Elastic:
    name = "elastic.Sampler"

    def __init__(self, sequence):
        self.sequence = sequence
        self.sampler = Sampler(sequence.n, seed=sequence.seed)

    def ranks(self, size):
        whole = self.sequence.batch(size) * size
        self.worlds = [
            environment.World(rank=rank, size=size, batch_size=whole // size, global_batch_size=whole) for rank in range(size)
        ]
        return [self.lists(world) for world in self.worlds]

    def lists(self, world):
        """The lists of one rank, each made while this process is that rank."""
        with being(world):
            lists = iter(self.sampler)
        while True:
            with being(world):
                indices = next(lists, None)
            if indices is None:
                return
            yield indices

    def stepped(self, batches):
        with being(self.worlds[0]):
            self.sampler.advance()

    @property
    def epoch(self):
        return self.sampler.epoch

    def ended(self):
        pass  # the sampler began the next epoch with the last step

    def state(self):
        return self.sampler.state_dict()

    def load(self, state):
        self.sampler.load_state_dict(state)


@contextlib.contextmanager
def being(world):
    environment._current = world
    yield


class Horovod:
    """ElasticSampler: record_batch() after each batch, set_epoch() at the end of each epoch, its
    state in the job's state, restored on every worker after a reset."""

    name = "horovod ElasticSampler"
    module = None

    def __init__(self, sequence):
        self.sequence, self.epoch, self.saved = sequence, 0, None
        self.samplers = []

    def ranks(self, size):
        self.samplers = []
        for rank in range(size):
            self.module.rank, self.module.size = (lambda rank=rank: rank), (lambda: size)
            sampler = self.module.ElasticSampler(range(self.sequence.n), seed=self.sequence.seed)
            if self.saved:
                sampler.load_state_dict(self.saved)
            self.samplers.append(sampler)
        return [chunks(sampler, self.sequence.batch(size)) for sampler in self.samplers]

    def stepped(self, batches):
        for sampler, batch in zip(self.samplers, batches):
            sampler.record_batch(0, len(batch))
        self.saved = self.samplers[0].state_dict()

    def ended(self):
        for sampler in self.samplers:
            sampler.set_epoch(sampler.epoch + 1)
        self.epoch, self.saved = self.epoch + 1, self.samplers[0].state_dict()

    def state(self):
        return self.epoch, self.saved

    def load(self, state):
        self.epoch, self.saved = state


class Accelerate:
    """The sampler that prepare() makes of a seeded one; skip_first_batches() with the steps that
    were made in the epoch goes on."""

    name = "accelerate prepare() + skip_first_batches()"

    def __init__(self, sequence):
        self.sequence, self.epoch, self.step = sequence, 0, 0

    def ranks(self, size):
        from accelerate.data_loader import BatchSamplerShard, SeedableRandomSampler, SkipBatchSampler
        from torch.utils.data import BatchSampler

        shards = []
        for rank in range(size):
            sampler = SeedableRandomSampler(range(self.sequence.n), data_seed=self.sequence.seed)
            sampler.set_epoch(self.epoch)
            batches = BatchSampler(sampler, self.sequence.batch(size), drop_last=False)
            shards.append(iter(SkipBatchSampler(BatchSamplerShard(batches, size, rank), self.step)))
        return shards

    def stepped(self, batches):
        self.step += 1

    def ended(self):
        self.epoch, self.step = self.epoch + 1, 0

    def state(self):
        return self.epoch, self.step

    def load(self, state):
        self.epoch, self.step = state


class Torchdata:
    """StatefulDistributedSampler: its state is saved by each rank; a rank that is new takes that
    of rank 0."""

    name = "torchdata StatefulDistributedSampler"

    def __init__(self, sequence):
        self.sequence, self.epoch, self.saved = sequence, 0, []
        self.samplers = []

    def ranks(self, size):
        from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

        self.samplers = []
        for rank in range(size):
            sampler = StatefulDistributedSampler(range(self.sequence.n), size, rank, seed=self.sequence.seed)
            sampler.set_epoch(self.epoch)
            if self.saved:
                sampler.load_state_dict(self.saved[rank if rank < len(self.saved) else 0])
            self.samplers.append(sampler)
        return [chunks(sampler, self.sequence.batch(size)) for sampler in self.samplers]

    def stepped(self, batches):
        self.saved = [sampler.state_dict() for sampler in self.samplers]

    def ended(self):
        self.epoch, self.saved = self.epoch + 1, []

    def state(self):
        return self.epoch, self.saved

    def load(self, state):
        self.epoch, self.saved = state


def chunks(sampler, size):
    """The batches of one rank, made as they are asked for."""
    batch = []
    for index in sampler:
        batch.append(index)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


class Run:
    """One sequence with one sampler. steps are those that count, as (epoch, samples)."""

    def __init__(self, kind, sequence):
        self.kind, self.sequence = kind, sequence
        self.sampler = kind(sequence)
        self.steps = []
        self.committed = (self.sampler.state(), [])

    def train(self):
        for stretch in self.sequence.stretches:
            if self.sampler.epoch == EPOCHS:
                return
            self.world(stretch)
            if stretch.killed and self.sampler.epoch < EPOCHS:
                state, steps = self.committed
                self.sampler, self.steps = self.kind(self.sequence), list(steps)
                self.sampler.load(state)

    def world(self, stretch):
        ranks = self.sampler.ranks(stretch.size)
        for commits in stretch.commits:
            batches = [next(rank, None) for rank in ranks]
            while all(batch is None for batch in batches):  # the epoch is through
                self.sampler.ended()
                if self.sampler.epoch == EPOCHS:
                    return
                ranks = self.sampler.ranks(stretch.size)
                batches = [next(rank, None) for rank in ranks]
            if None in batches:
                raise RuntimeError("a rank has no batch and the others wait for it")
            self.steps.append((self.sampler.epoch, sorted(i for batch in batches for i in batch)))
            self.sampler.stepped(batches)
            if commits:
                self.committed = (self.sampler.state(), list(self.steps))


class Tally:
    """What became of all sequences with one sampler."""

    def __init__(self):
        self.right = self.crashed = self.samples = self.lost = self.repeated = 0

    def add(self, kind, sequence):
        run = Run(kind, sequence)
        try:
            run.train()
        except Exception:
            self.crashed += 1
            return
        taken = collections.Counter((epoch, i) for epoch, step in run.steps for i in step)
        lost = EPOCHS * sequence.n - len(taken)
        repeated = sum(taken.values()) - len(taken)
        self.samples += EPOCHS * sequence.n
        self.lost, self.repeated = self.lost + lost, self.repeated + repeated
        self.right += lost == repeated == 0

    def row(self, name, sequences):
        share = [100 * part / max(self.samples, 1) for part in (self.lost, self.repeated)]
        return f"| {name} | {self.right} of {sequences} | {share[0]:.1f} % | {share[1]:.1f} % | {self.crashed} |"


def load_horovod(folder):
    """Its sampler module, with rank() and size() that each Horovod sets."""
    path = next(pathlib.Path(folder).glob("**/horovod/torch/elastic/sampler.py"))
    played = types.ModuleType("horovod.torch.mpi_ops")
    played.rank, played.size = (lambda: 0), (lambda: 1)
    for name in ("horovod", "horovod.torch"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["horovod.torch.mpi_ops"] = played
    spec = importlib.util.spec_from_file_location("horovod_sampler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kinds(horovod):
    found = [Elastic]
    for kind, package in ((Accelerate, "accelerate"), (Torchdata, "torchdata")):
        if importlib.util.find_spec(package):
            found.append(kind)
        else:
            print(f"{package} is not installed: left out", file=sys.stderr)
    if horovod:
        Horovod.module = load_horovod(horovod)
        found.append(Horovod)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=10_000)
    parser.add_argument("--horovod", metavar="DIRECTORY", help="an unpacked source archive of Horovod")
    args = parser.parse_args()
    failed = False
    for fixed, words in ((True, f"the global batch stays {GLOBAL}"), (False, f"{PER_RANK} samples a rank")):
        print(f"\n{words}\n\n| sampler | right | lost | repeated | crashed |\n| --- | --- | --- | --- | --- |")
        for kind in kinds(args.horovod):
            tally = Tally()
            for number in range(args.sequences):
                tally.add(kind, Sequence(number, fixed))
            failed = failed or kind is Elastic and tally.right != args.sequences
            print(tally.row(kind.name, args.sequences), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
