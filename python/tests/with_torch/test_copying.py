"""Copies of real tensors."""

import collections
import os
import tempfile
import unittest

import torch

from elastic import State, copying, environment, saving

from ..worlds import being


def copied(value, into=None):
    return copying.Copier(copying.ToHost().move).copy(value, into)


class CopyingTest(unittest.TestCase):
    def test_kinds_of_tensors_stay(self):
        value = collections.OrderedDict(
            parameter=torch.nn.Parameter(torch.ones(3)),
            leaf=torch.ones(2, requires_grad=True),
            result=torch.ones(2, requires_grad=True) * 2,
            view=torch.arange(6).reshape(2, 3).t(),
            expanded=torch.ones(1).expand(4),
            empty=torch.empty(0),
            bits=torch.ones(2, dtype=torch.bfloat16),
        )
        older = copied(value)
        for into in (None, older):
            copy = copied(value, into)
            self.assertIs(type(copy), collections.OrderedDict)
            for name, tensor in value.items():
                self.assertIs(type(copy[name]), type(tensor))
                self.assertEqual(copy[name].requires_grad, tensor.requires_grad)
                self.assertTrue(torch.equal(copy[name], tensor), name)
                self.assertTrue(not tensor.numel() or copy[name].data_ptr() != tensor.data_ptr(), name)
        self.assertIs(copied(value, older)["leaf"], older["leaf"], "memory is taken once")

    def test_what_is_one_stays_one_and_what_was_one_is_not(self):
        net = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4), "b": torch.nn.Linear(4, 4)})
        net["b"].weight = net["a"].weight
        older = copied(net.state_dict())
        self.assertEqual(older["a.weight"].data_ptr(), older["b.weight"].data_ptr())
        net["b"].weight = torch.nn.Parameter(torch.zeros(4, 4))
        copy = copied(net.state_dict(), older)
        for name, tensor in net.state_dict().items():
            self.assertTrue(torch.equal(copy[name], tensor), name)

    def test_a_save_in_the_background_equals_the_state_of_its_step(self):
        with tempfile.TemporaryDirectory() as folder, being(environment.read({"ELASTIC_CHECKPOINT_DIR": folder})):
            net = torch.nn.Linear(64, 64)
            optimizer = torch.optim.Adam(net.parameters())
            s = State(model=net, optimizer=optimizer, save_every=2, keep=99)
            were = {}
            for step in range(1, 21):
                optimizer.zero_grad()
                net(torch.full((8, 64), float(step))).sum().backward()
                optimizer.step()
                were[step] = copied({"model": net.state_dict(), "optimizer": optimizer.state_dict()})
                s.end_step()
            s._course.keeping.wait()
            for step in range(2, 21, 2):
                saved = saving.read(os.path.join(folder, f"step-{step}"))
                self.assertEqual(saved["step"], step)
                for name, tensor in were[step]["model"].items():
                    self.assertTrue(torch.equal(saved["model"][name], tensor))
                for number, values in were[step]["optimizer"]["state"].items():
                    for name, value in values.items():
                        same = torch.as_tensor(saved["optimizer"]["state"][number][name])
                        self.assertTrue(torch.equal(same, torch.as_tensor(value)))
