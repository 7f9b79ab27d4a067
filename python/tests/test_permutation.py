import collections
import unittest

from elastic.permutation import Permutation


class PermutationTest(unittest.TestCase):
    def test_each_number_once_for_any_n(self):
        for n in [*range(1, 260), 1000, 1023, 1024, 1025, 4097]:
            order = Permutation(n, seed=n, epoch=n % 3)
            self.assertEqual(sorted(order[i] for i in range(n)), list(range(n)), n)

    def test_seed_and_epoch_make_the_order(self):
        orders = {
            tuple(Permutation(100, seed, epoch)[i] for i in range(100)) for seed in range(20) for epoch in range(20)
        }
        self.assertEqual(len(orders), 400)
        again = [Permutation(100, 7, 3)[i] for i in range(100)]
        self.assertEqual(again, [Permutation(100, 7, 3)[i] for i in range(100)])

    def test_huge_datasets_cost_nothing(self):
        n = 10**12
        order = Permutation(n, seed=0, epoch=0)
        indices = [order[i] for i in range(1000)]
        self.assertEqual(len(set(indices)), 1000)
        self.assertTrue(all(0 <= i < n for i in indices))
        self.assertGreater(max(indices), n // 2)

    def test_every_place_is_as_likely(self):
        """Chi-square over 12 places and 6,000 orders; 11 degrees of freedom, beyond 45 once in 200,000."""
        n, orders = 12, 6000
        for element in (0, 5, 11):
            places = collections.Counter(
                next(i for i in range(n) if order[i] == element)
                for order in (Permutation(n, seed, 1) for seed in range(orders))
            )
            expected = orders / n
            chi = sum((places[i] - expected) ** 2 / expected for i in range(n))
            self.assertLess(chi, 45, f"element {element}: {dict(places)}")

    def test_neighbours_are_torn_apart(self):
        """The distance of samples that follow each other is that of a random order: n/3 on average."""
        n = 10_000
        order = Permutation(n, seed=1, epoch=0)
        mean = sum(abs(order[i] - order[i + 1]) for i in range(n - 1)) / (n - 1)
        self.assertAlmostEqual(mean / (n / 3), 1, delta=0.03)
