"""How long a rank works before it waits: which steps count, and where nothing is measured."""

import gc
import sys
import types
import unittest
import unittest.mock

from elastic.arrival import LOOKED, STEPS, Arrival

from .worlds import being, world_of


class Parameter:
    """What torch calls a parameter, as far as its gradient matters."""

    requires_grad = True

    def __init__(self, device="cpu"):
        self.device = types.SimpleNamespace(type=device)
        self.notes = []
        self.grad_fn = types.SimpleNamespace(next_functions=[(self, 0)])

    def expand_as(self, _):
        return self

    def register_hook(self, note):
        self.notes.append(note)
        return types.SimpleNamespace(remove=lambda: self.notes.remove(note))


class Wrapper:
    def __init__(self, size, parameters):
        self.process_group = types.SimpleNamespace(size=lambda: size)
        self._parameters = parameters

    def parameters(self):
        return self._parameters


class Torch:
    class enable_grad:
        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass


class ArrivalTest(unittest.TestCase):
    def setUp(self):
        modules = {"torch": Torch, "torch.nn.parallel.distributed": types.SimpleNamespace(DistributedDataParallel=Wrapper)}
        patch = unittest.mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)
        self.now = 100.0
        self.arrival = Arrival(lambda: self.now)
        gc.collect()

    def train(self, parameters, own=(0.25,), whole=0.5, steps=STEPS + LOOKED, first=1):
        """Steps of which each takes whole seconds, and has its last gradient after own."""
        for step in range(first, first + steps):
            mine = own[step % len(own)]
            for part in (mine / 2, mine):
                self.now += part - (mine / 2 if part == mine else 0)
                for p in parameters:
                    for note in p.notes:
                        note(None)
            self.now += whole - mine
            self.arrival.step_ended(step)

    def test_the_time_until_the_last_gradient(self):
        parameters = [Parameter() for _ in range(4)]
        keep = Wrapper(2, parameters)
        with being(world_of(2, 4)[0]):
            self.train(parameters, steps=STEPS)
            self.assertEqual(self.arrival.figures(), {}, "too few steps")
            self.train(parameters, steps=LOOKED, first=STEPS + 1)
            self.assertEqual(self.arrival.figures(), {"own": 0.25, "whole": 0.5})
        self.assertEqual([len(p.notes) for p in keep.parameters()], [1, 0, 0, 1])

    def test_one_long_step_of_many_does_not_count(self):
        parameters = [Parameter()]
        keep = Wrapper(2, parameters)
        with being(world_of(2, 4)[0]):
            self.train(parameters, own=(0.25,) * 9 + (60.0,), steps=2 * STEPS)
            self.assertEqual(self.arrival.figures()["own"], 0.25)
        del keep

    def test_a_step_that_is_told_twice(self):
        parameters = [Parameter()]
        keep = Wrapper(2, parameters)
        with being(world_of(2, 4)[0]):
            self.train(parameters)
            self.now += 7
            self.arrival.step_ended(STEPS + LOOKED)
            self.assertEqual(self.arrival._began, self.now - 7)
        del keep

    def test_another_world_begins_anew(self):
        parameters = [Parameter()]
        keep = Wrapper(2, parameters)
        one, other = world_of(2, 4)[0], world_of(2, 4)[0]
        other.generation = one.generation + 1
        with being(one):
            self.train(parameters)
        with being(other):
            self.arrival.step_ended(1)
            self.assertEqual((self.arrival.figures(), parameters[0].notes), ({}, []))
        del keep

    def test_where_nothing_is_measured(self):
        for name, wrappers in {
            "no wrapper": [],
            "two wrappers": [Wrapper(2, [Parameter()]), Wrapper(2, [Parameter()])],
            "a part of the ranks": [Wrapper(1, [Parameter()])],
            "a GPU": [Wrapper(2, [Parameter(), Parameter("cuda"), Parameter()])],
        }.items():
            with self.subTest(name), being(world_of(2, 4)[0]):
                self.arrival = Arrival(lambda: self.now)
                self.train([p for one in wrappers for p in one.parameters()])
                self.assertEqual(self.arrival.figures(), {})
            del wrappers[:]
            gc.collect()
