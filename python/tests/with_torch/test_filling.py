"""What a script holds by a name of its own is what load() fills, and what is trained is part of the state."""

import collections
import contextlib
import dataclasses
import io
import pickle
import random
import unittest

import numpy
import torch

from elastic import State


class Record:
    def __init__(self):
        self.best, self.losses = 0.0, []


@dataclasses.dataclass(frozen=True)
class Fixed:
    rate: float


def loaded(saved, into):
    """The first state, put into the second as another process does it."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        into._course.restore(into, pickle.loads(pickle.dumps(saved._course.content())))
    return said.getvalue()


class FillingTest(unittest.TestCase):
    def test_objects_of_the_script_are_filled(self):
        record = Record()
        record.best, record.losses = 2.0, [1.0, 2.0]
        generator = random.Random(1)
        generator.random()
        cases = {
            "dict": ({}, {"a": 1}, dict),
            "tensors": ({"w": torch.zeros(2), "old": 1}, {"w": torch.ones(2)}, lambda v: {k: list(p) for k, p in v.items()}),
            "list": ([5, 6, 7], [1], list),
            "deque": (collections.deque([1], maxlen=2), collections.deque([2, 3], maxlen=2), list),
            "set": ({1}, {2, 3}, set),
            "tensor": (torch.zeros(2), torch.ones(2), torch.Tensor.tolist),
            "parameter": (torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.ones(2)), torch.Tensor.tolist),
            "array": (numpy.zeros(2), numpy.ones(2), numpy.ndarray.tolist),
            "object": (Record(), record, vars),
            "random": (random.Random(2), generator, random.Random.getstate),
        }
        for kind, (mine, saved, content) in cases.items():
            state = State(value=mine)
            loaded(State(value=saved), state)
            self.assertIs(state.value, mine, kind)
            self.assertEqual(content(mine), content(saved), kind)

    def test_parts_of_a_filled_object_are_filled(self):
        weights = torch.zeros(2)
        loaded(State(value=[{"w": torch.ones(2)}]), State(value=[{"w": weights}]))
        self.assertEqual(weights.tolist(), [1.0, 1.0])

    def test_what_cannot_be_filled_is_replaced(self):
        net = torch.nn.Linear(2, 2)
        cases = {
            "another form": (torch.zeros(3), torch.ones(2)),
            "expanded": (torch.zeros(1).expand(2), torch.ones(1).expand(2)),
            "fixed": (Fixed(1.0), Fixed(2.0)),
            "sparse": (torch.zeros(2).to_sparse(), torch.ones(2).to_sparse()),
            "number": (1, 2),
            "kind": ([1], {"a": 1}),
        }
        for kind, (mine, saved) in cases.items():
            before = pickle.dumps(mine)
            state = State(value=mine)
            loaded(State(value=saved), state)
            self.assertEqual(str(state.value), str(saved), kind)
            self.assertEqual(pickle.dumps(mine), before, kind)
        state = State(model=net, begin={"weight": net.weight.detach()})  # of the memory of the model
        saved = State(model=torch.nn.Linear(2, 2), begin={"weight": torch.full((2, 2), 5.0)})
        loaded(saved, state)
        self.assertEqual(net.weight.tolist(), saved.model.weight.tolist())
        self.assertEqual(state.begin["weight"].tolist(), [[5.0, 5.0], [5.0, 5.0]])

    def test_parameters_are_trained_as_when_the_state_was_saved(self):
        older, newer = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        older.weight.requires_grad_(False)
        newer.bias.requires_grad_(False)
        said = loaded(State(model=older), State(model=newer))
        self.assertEqual([p.requires_grad for p in newer.parameters()], [False, True])
        self.assertIn("model.weight and 1 more", said)
        self.assertEqual(loaded(State(model=older), State(model=newer)), "", "nothing differs")


if __name__ == "__main__":
    unittest.main()
