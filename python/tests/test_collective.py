import random
import sys
import types
import unittest
import unittest.mock

from elastic import collective


class Group:
    """A process group of ranks that run in one thread. With real threads, reading a
    result before every rank has joined would block. Here it is an error."""

    def __init__(self, size):
        self.size, self.rounds, self.joined = size, {}, [0] * size
        self.rank = 0

    def all_reduce(self, numbers, op, group, async_op):
        number = self.joined[self.rank]
        self.joined[self.rank] += 1
        self.rounds.setdefault(number, []).append(numbers)
        return types.SimpleNamespace(wait=lambda: self.wait(number))

    def wait(self, number):
        tensors = self.rounds[number]
        if len(tensors) < self.size:
            raise AssertionError(f"only {len(tensors)} of {self.size} ranks have joined")
        largest = [max(values) for values in zip(*tensors)]
        for tensor in tensors:
            tensor[:] = largest


class Tensor(list):
    def tolist(self):
        return list(self)


class VoteTest(unittest.TestCase):
    def run_steps(self, size, step_time, asked_at, chance):
        """The step at which each rank stops; ranks meet once in each step, in any order."""
        group, clock = Group(size), [1000.0]
        dist = types.SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            all_reduce=group.all_reduce,
            ReduceOp=types.SimpleNamespace(MAX="max"),
        )
        torch = types.ModuleType("torch")
        torch.distributed, torch.float64 = dist, "float64"
        torch.tensor = lambda values, dtype: Tensor(values)
        votes, stopped = [collective.Vote() for _ in range(size)], {}
        with unittest.mock.patch.dict(sys.modules, {"torch": torch}), unittest.mock.patch.object(
            collective, "side_group", lambda: group
        ), unittest.mock.patch.object(collective.time, "monotonic", lambda: clock[0]):
            for step in range(1, 2000):
                clock[0] += step_time * chance.uniform(0.5, 1.5)
                for rank in chance.sample(range(size), size):
                    group.rank = rank
                    if votes[rank].cast(lambda: step >= asked_at[rank], size):
                        stopped[rank] = step
                if stopped:
                    return stopped, max(group.joined)
        return stopped, max(group.joined)

    def test_the_same_step_on_every_rank(self):
        for seed in range(200):
            chance = random.Random(seed)
            size = chance.randint(2, 5)
            asked_at = [chance.randint(1, 300) for _ in range(size)]
            step_time = chance.choice([0.0001, 0.01, 1.0])
            stopped, _ = self.run_steps(size, step_time, asked_at, chance)
            self.assertEqual(len(stopped), size)
            self.assertEqual(len(set(stopped.values())), 1, stopped)
            step = min(stopped.values())
            self.assertGreaterEqual(step, min(asked_at))
            self.assertLessEqual(step - min(asked_at), 2 * collective.MOST_STEPS + 4)

    def test_long_steps_stop_at_once_and_short_ones_vote_seldom(self):
        stopped, _ = self.run_steps(2, 1.0, [50, 1000], random.Random(0))
        self.assertLessEqual(stopped[0], 52)
        stopped, votes = self.run_steps(2, 0.0001, [1900, 1900], random.Random(0))
        self.assertLess(votes, 30)

    def test_one_rank_agrees_with_itself(self):
        self.assertTrue(collective.Vote().cast(lambda: True, 1))
        self.assertFalse(collective.Vote().cast(lambda: False, 1))
