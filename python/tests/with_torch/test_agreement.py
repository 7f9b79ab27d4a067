"""Ranks that nothing joins."""

import tempfile
import unittest

import torch

from elastic import ElasticError, Sampler, State, environment
from tests.worlds import being


class AgreementTest(unittest.TestCase):
    def test_ranks_without_a_process_group_are_refused(self):
        """Each would train a model of its own, without a word."""
        with tempfile.TemporaryDirectory() as dir:
            names = {"RANK": "0", "WORLD_SIZE": "2", "ELASTIC_GLOBAL_BATCH_SIZE": "8", "ELASTIC_CHECKPOINT_DIR": dir}
            with being(environment.read(names)):
                model = torch.nn.Linear(2, 1)
                state = State(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), sampler=Sampler(64))
                with self.assertRaisesRegex(ElasticError, "2 ranks train model, each by itself: .*init_process_group"):
                    for _ in state.sampler:
                        model(torch.ones(1, 2)).sum().backward()
                        state.optimizer.step()
                        state.end_step()
