"""How long a rank waits for the others."""

import unittest
import unittest.mock

from elastic import patience


class PatienceTest(unittest.TestCase):
    def test_limits_follow_from_the_time_of_a_step(self):
        for usual, look, end in (
            (None, 60.0, 1800.0),
            (0.001, 1.0, 600.0),
            (0.5, 5.0, 600.0),
            (6.0, 60.0, 600.0),
            (10.0, 60.0, 1000.0),
            (36.0, 60.0, 3600.0),
            (1200.0, 60.0, 3600.0),
        ):
            with self.subTest(usual=usual):
                self.assertEqual((patience.look_after(usual), patience.end_after(usual)), (look, end))

    def test_what_is_usual(self):
        pace, now = patience.Pace(), 100.0
        with unittest.mock.patch.object(patience.time, "monotonic", lambda: now):
            for takes, usual in (0.0, None), (30.0, None), (2.0, None), (2.0, 2.0), (300.0, 16.0), (2.0, 2.0):
                now += takes
                pace.step()
                self.assertEqual(pace.usual(), usual)
            pace.begin()  # what is between two worlds is no step
            now += 5000.0
            pace.step()
            self.assertEqual(pace.usual(), 2.0)
            for _ in range(20):  # the model has changed
                now += 7.0
                pace.step()
            self.assertEqual(pace.usual(), 7.0)
