import unittest

from elastic import environment
from elastic.epochs import Epochs
from elastic.errors import ElasticError


def world(rank, size, batch=6, accumulation=1):
    environment._current = environment.read(
        {"RANK": str(rank), "WORLD_SIZE": str(size), "ELASTIC_GLOBAL_BATCH_SIZE": str(batch),
         "ELASTIC_GRAD_ACCUM_STEPS": str(accumulation)})  # fmt: skip


def steps(size, accumulation=1, n=16, begin=0, epoch=0):
    """The samples of all ranks in each step, and the sum of the weights times the samples of each part."""
    ranks = []
    for rank in range(size):
        world(rank, size, accumulation=accumulation)
        epochs = Epochs(n, 1, mark_stand_ins=True)
        if begin:
            epochs.begin_at(begin)
        epochs.set_epoch(epoch)
        parts = list(epochs)
        ranks.append([parts[i : i + accumulation] for i in range(0, len(parts), accumulation)])
    return [sorted(x for rank in ranks for part in rank[i] for x in part if x >= 0) for i in range(len(ranks[0]))]


class EpochsTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, environment, "_current", environment._current)

    def test_each_step_has_the_same_samples_in_every_world(self):
        expected = steps(1)
        self.assertEqual(sorted(sum(expected, [])), list(range(16)))
        for size, accumulation in ((2, 1), (3, 1), (1, 3), (2, 3), (3, 2), (6, 1)):
            self.assertEqual(steps(size, accumulation), expected, (size, accumulation))

    def test_a_short_step_has_as_many_micro_batches_as_the_others(self):
        for accumulation in (2, 3):
            world(0, 2, accumulation=accumulation)
            epochs = Epochs(13, 1, mark_stand_ins=True)  # the last step has one sample
            self.assertEqual(len(list(epochs)), len(epochs))
            self.assertEqual(epochs.weights(2)[1:], [0.0] * (accumulation - 1))

    def test_epochs_differ(self):
        self.assertNotEqual(steps(2, epoch=1), steps(2))

    def test_goes_on_in_the_middle_of_an_epoch(self):
        self.assertEqual(steps(2, begin=4, epoch=1), steps(1, epoch=1)[1:])
        self.assertEqual(steps(2, begin=4, epoch=2), steps(1, epoch=2), "only that epoch is cut")

    def test_weights_make_the_mean_over_the_global_batch(self):
        for step, length in ((0, 6), (2, 4), (5, 4)):
            total = 0.0
            for rank in range(3):
                world(rank, 3, accumulation=2)
                epochs = Epochs(16, 1, mark_stand_ins=True)
                epochs.set_epoch(step // 3)
                parts = list(epochs)[step % 3 * 2 :][:2]
                self.assertEqual(len(epochs), len(list(epochs)))
                for part, weight in zip(parts, epochs.weights(step)):
                    samples = len([x for x in part if x >= 0])
                    self.assertAlmostEqual(weight / 3 * length, samples)
                    total += weight / 3
            self.assertAlmostEqual(total, 1)

    def test_position_counts_the_short_batch(self):
        world(0, 2)
        epochs = Epochs(16, 1)
        self.assertEqual(epochs.position(3)["samples"], 16)
        self.assertEqual(epochs.position(4), {"samples": 22, "epoch": 1, "consumed": 6, "seed": 1, "dataset_size": 16,
                                              "global_batch": 6})  # fmt: skip

    def test_another_batch_is_refused(self):
        world(0, 2)
        epochs = Epochs(16, 1)
        epochs.check(epochs.terms())
        epochs.check(None)
        with self.assertRaisesRegex(ElasticError, "global_batch=12, this world has 6.*fixed-batch"):
            epochs.check({**epochs.terms(), "global_batch": 12})


if __name__ == "__main__":
    unittest.main()
