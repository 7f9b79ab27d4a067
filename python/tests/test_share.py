"""Faults while one rank sends its state to another. This rank is 1 of 2; the other one is simulated."""

import unittest
import unittest.mock

from elastic import saving, voting
from elastic.errors import ElasticError
from tests import test_training
from tests.test_training import PlayedGroup


class ShareTest(test_training.PlayedWorld):
    def setUp(self):
        super().setUp()
        self.other = 5  # the step of rank 0
        self.given = {"step": 5, "samples": 160}
        self.broadcasts = []

        def opens(group, world, word):
            group.opened.append((world.generation, word["place"]))
            return [dict(word, place=None if self.other is None else [self.other, 0]), word] if world.size == 2 else [word]

        for patch in (
            unittest.mock.patch.object(PlayedGroup, "open", opens),
            unittest.mock.patch.object(voting, "broadcast", self.broadcast),
            unittest.mock.patch.object(voting, "pack", lambda content: content),
            unittest.mock.patch.object(voting, "unpack", lambda data: data),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        test_training.environment._current.rank, test_training.environment._current.size = 1, 2

    def broadcast(self, data, giver, device, received):
        generation = test_training.environment.world().generation
        self.broadcasts.append(generation)
        if generation in self.breaks:
            self.breaks[generation]()
        return data if data is not None else self.given

    def lost(self):
        raise RuntimeError("Connection closed by peer")

    def test_two_changes_while_the_broadcast_runs(self):
        self.breaks = {1: lambda: PlayedGroup.newest.collective(), 2: lambda: PlayedGroup.newest.collective()}
        outcome = self.start(lambda world: (world.generation, self.state.step))
        for generation in (1, 2):
            test_training.until(lambda: generation in self.broadcasts)
            self.agent.send(leave=generation)
            self.assertEqual(self.agent.hears("left"), {"generation": generation, "step": None})
            self.hand(generation + 1, WORLD_SIZE="2", RANK="1")
        test_training.until(lambda: 3 in self.broadcasts)
        self.agent.values[3, "elastic/through/0"] = ""
        self.assertEqual(outcome.get(timeout=60), (3, 5))

    def test_the_rank_that_gives_is_killed_and_another_gives(self):
        self.breaks = {1: self.lost}
        outcome = self.start(lambda world: (world.generation, self.state.step))
        test_training.until(lambda: self.broadcasts)
        self.other = 4  # in the generation that is left
        self.given = {"step": 4, "samples": 128}
        self.agent.send(leave=1)
        self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": None})
        self.agent.values[2, "elastic/through/0"] = ""
        self.hand(2, WORLD_SIZE="2", RANK="1")
        self.assertEqual(outcome.get(timeout=60), (2, 4))

    def test_all_that_have_the_state_are_lost_and_the_checkpoint_is_loaded(self):
        self.breaks = {1: self.lost}
        outcome = self.start(lambda world: (world.generation, self.state.step))
        test_training.until(lambda: self.broadcasts)
        self.agent.send(leave=1)
        self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": None})
        with unittest.mock.patch.object(saving, "read", lambda path: {"step": 3, "samples": 96}):
            self.hand(2, WORLD_SIZE="1", RANK="0", ELASTIC_RESUME_FROM="checkpoint")
            self.assertEqual(outcome.get(timeout=60), (2, 3))

    def test_a_state_that_cannot_be_copied(self):
        """This rank has the state, and the new one has none."""
        self.breaks = {}
        self.other = None

        def refuses(content):
            raise TypeError("cannot pickle a lock")

        def function(world):
            if world.generation == 1:
                self.state.commit()
                PlayedGroup.newest.collective()

        test_training.environment._current.rank, test_training.environment._current.size = 0, 1
        with unittest.mock.patch.object(voting, "pack", refuses):
            outcome = self.start(function)
            test_training.until(lambda: self.state.step == 1)
            self.agent.send(leave=1)
            self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": 1})
            self.hand(2, WORLD_SIZE="2", RANK="1")
            error = outcome.get(timeout=60)
        self.assertIsInstance(error, ElasticError)
        self.assertIn("cannot be given to the ranks that have none: cannot pickle a lock", str(error))


if __name__ == "__main__":
    unittest.main()
