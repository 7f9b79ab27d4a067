import collections
import contextlib
import io
import json
import os
import random
import unittest

from elastic import ElasticError, LoadError, Sampler, environment

from .worlds import being, world_of


def take_step(sampler, ranks):
    """What each rank takes in the step at hand, and the sum of the weighted means of their
    indices, as a data-parallel framework averages it."""
    taken, mean = [], 0.0
    for world in ranks:
        with being(world):
            indices = next(iter(sampler))
            taken.append(indices)
            if indices:
                mean += sampler.loss_weight * sum(indices) / len(indices) / world.size
            else:
                assert sampler.loss_weight == 0
            assert sampler.has_samples == bool(indices)
    return taken, mean


def advance(sampler, ranks):
    with being(ranks[0]):
        return sampler.advance()


class SamplerTest(unittest.TestCase):
    def test_shares_and_weights(self):
        sampler = Sampler(10, shuffle=False)
        ranks = world_of(size=3, global_batch=8)
        taken, mean = take_step(sampler, ranks)
        self.assertEqual(taken, [[0, 3, 6], [1, 4, 7], [2, 5]])
        self.assertAlmostEqual(mean, sum(range(8)) / 8)
        self.assertEqual(advance(sampler, ranks), 8)
        taken, mean = take_step(sampler, ranks)
        self.assertEqual(taken, [[8], [9], []], "the last batch is short and a rank may have none")
        self.assertAlmostEqual(mean, 8.5)
        self.assertEqual(advance(sampler, ranks), 2)
        self.assertEqual((sampler.epoch, sampler.consumed), (1, 0))

    def test_micro_batches(self):
        sampler = Sampler(20, shuffle=False)
        ranks = world_of(size=3, global_batch=16, accumulation=2)
        for begin, length in ((0, 16), (16, 4)):
            total, counts = 0.0, set()
            for world in ranks:
                with being(world):
                    indices = sampler.indices(0, begin)
                    parts = list(sampler.split(indices))
                    counts.add(len(parts))
                    self.assertEqual(sum((part for part, _ in parts), []), indices)
                    for part, weight in parts:
                        self.assertLessEqual(len(part), world.batch_size)
                        total += weight * sum(part) / len(part) / world.size if part else 0
            self.assertEqual(len(counts), 1, "all ranks have equally many micro-batches")
            self.assertAlmostEqual(total, sum(range(begin, begin + length)) / length)
            advance(sampler, ranks)

    def test_position_counts_what_was_committed(self):
        sampler = Sampler(10, shuffle=False)
        with being(world_of(1, 4)[0]):
            ahead = list(iter(sampler))  # a loader that fetched the whole epoch
            self.assertEqual(sampler.position, 0)
            sampler.advance()
            self.assertEqual(list(sampler), ahead[1:])

    def test_epochs(self):
        sampler = Sampler(10)
        seen = []
        with being(world_of(1, 4)[0]):
            for epoch in sampler.epochs(2):
                self.assertEqual(len(sampler), 3)
                for indices in sampler:
                    seen.append((epoch, indices))
                    sampler.advance()
            self.assertEqual([epoch for epoch, _ in seen], [0, 0, 0, 1, 1, 1])
            self.assertNotEqual(seen[0][1], seen[3][1])
            self.assertEqual(list(sampler.epochs(2)), [])
            self.assertEqual(sampler.total, 20)
            self.assertEqual(sampler.position, 20)

    def test_an_epoch_without_a_commit_is_refused(self):
        sampler = Sampler(10)
        with being(world_of(1, 4)[0]):
            list(sampler)
            with self.assertRaisesRegex(ElasticError, "without an ended step"):
                list(sampler)

    def test_a_loop_that_begins_its_epochs_again_is_told(self):
        for epochs, epoch, generation, told in ((False, 1, 2, 1), (True, 1, 2, 0), (False, 0, 2, 0), (False, 1, 1, 0)):
            sampler = Sampler(2)
            with being(environment.read({"ELASTIC_GENERATION": "1"})):
                iter(sampler)
            sampler.epoch = epoch
            with being(environment.read({"ELASTIC_GENERATION": str(generation)})):
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    for _ in range(2):
                        sampler._in_epochs = epochs
                        iter(sampler)
            self.assertEqual(said.getvalue().count("sampler.epochs(N)"), told, (epochs, epoch, generation))

    def test_an_epoch_that_was_only_fetched_ahead_begins_again_in_the_next_world(self):
        sampler = Sampler(10, shuffle=False)
        world = world_of(1, 4)[0]
        with being(world):
            first = list(sampler)
            world.generation += 1
            self.assertEqual(list(sampler), first)

    def test_loaders_get_no_empty_batch(self):
        sampler = Sampler(9, shuffle=False)
        with being(world_of(3, 4)[2]):
            batches = sampler.batch_sampler()
            self.assertEqual((list(batches), len(batches)), ([[2], [6], [6]], 3))
            sampler.advance()
            sampler.advance()
            self.assertEqual(sampler.loss_weight, 0)

    def test_nonsense_is_refused(self):
        for arguments in ({"n": 0}, {"n": -1}, {"n": 1.5}, {"n": True}, {"n": "10"}, {"n": 10, "seed": -1}):
            with self.assertRaises(ElasticError):
                Sampler(**arguments)

    def test_another_order_is_refused(self):
        saved = Sampler(100, seed=3).state_dict()
        self.assertEqual(json.loads(json.dumps(saved)), saved)
        for other in (Sampler(101, seed=3), Sampler(100, seed=4), Sampler(100, seed=3, shuffle=False)):
            with self.assertRaisesRegex(LoadError, "n=100, seed=3"):
                other.load_state_dict(saved)
            self.assertEqual(other.position, 0)


class ExactlyOnceTest(unittest.TestCase):
    """Random sequences of world sizes, kills and commits."""

    SEQUENCES = int(os.environ.get("SEQUENCES", "2000"))

    def test_fixed_batch(self):
        """Each epoch has each sample once in committed steps, and a step has the same samples in
        every world."""
        for number in range(self.SEQUENCES):
            with self.subTest(sequence=number):
                self.train(random.Random(number), fixed=True)

    def test_batches_that_follow_the_world(self):
        for number in range(self.SEQUENCES // 10):
            with self.subTest(sequence=number):
                self.train(random.Random(-number - 1), fixed=False)

    def train(self, chance, fixed):
        n, batch, epochs = chance.randint(1, 60), chance.choice([4, 8, 12, 16]), 2
        sampler = Sampler(n, seed=chance.randrange(1000))
        committed, kept, canonical = sampler.state_dict(), [], undisturbed(sampler, batch, epochs)
        steps = []
        while sampler.epoch < epochs:
            size = chance.randint(1, 4)
            accumulation = chance.choice([1, 2]) if fixed and batch // 2 >= size else 1
            ranks = world_of(size, batch if fixed else 3 * size, accumulation)
            for _ in range(chance.randint(0, 12)):  # steps of this world
                if sampler.epoch == epochs:
                    break
                taken, mean = take_step(sampler, ranks)
                step = [i for indices in taken for i in indices]
                self.assertAlmostEqual(mean, sum(step) / len(step))
                steps.append((sampler.epoch, sorted(step)))
                advance(sampler, ranks)
                if chance.random() < 0.3:
                    committed, kept = sampler.state_dict(), list(steps)
            if chance.random() < 0.5 and sampler.epoch < epochs:  # killed: back to the last commit
                sampler = Sampler(n, seed=sampler.seed)
                sampler.load_state_dict(committed)
                steps = list(kept)
        counts = collections.Counter((epoch, i) for epoch, step in steps for i in step)
        self.assertEqual(counts, {(epoch, i): 1 for epoch in range(epochs) for i in range(n)})
        if fixed:
            self.assertEqual(steps, canonical)


def undisturbed(sampler, batch, epochs):
    """The steps of one undisturbed worker."""
    n, steps = sampler.n, []
    for epoch in range(epochs):
        order = sampler.order(epoch)
        for begin in range(0, n, batch):
            steps.append((epoch, sorted(order[i] for i in range(begin, min(begin + batch, n)))))
    return steps
