import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

from elastic import ElasticError, LoadError, Sampler, State, environment, saving
from elastic import course as course_module
from elastic import state as state_module

from .worlds import being


class Model:
    """What torch calls a module, as far as a State cares."""

    def __init__(self, weight=0.0):
        self.weight = weight

    def state_dict(self):
        return {"weight": self.weight}

    def load_state_dict(self, state):
        self.weight = state["weight"]


class StateTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.dir = self._folder.name
        self.be({})

    def be(self, variables):
        context = being(environment.read({"ELASTIC_CHECKPOINT_DIR": self.dir, **variables}))
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def state(self, **values):
        values = {"save_every": None, "model": Model(), "sampler": Sampler(100), "best": 0.0, **values}
        return State(**values)

    def test_reports_when_the_step_before_a_generation_ended(self):
        """A process that goes on in the next generation reports it, and one that takes the state of another does not."""
        reported = []
        reporter = types.SimpleNamespace(report=reported.append, step_ended=lambda step: None)
        with unittest.mock.patch.object(course_module, "reporter", lambda: reporter), unittest.mock.patch.object(
            course_module.time, "time", iter(range(1, 9)).__next__
        ):
            s = self.state()
            for generation, takes in (("1", False), ("2", False), ("3", True)):
                self.be({"ELASTIC_GENERATION": generation, "ELASTIC_NUM_NODES": "1"})
                if takes:
                    s._course.take(s, s._course.content())
                s.commit()
                s.commit()
        self.assertEqual([figures["first"] for figures in reported], [1, 1, 3, 3, 5, 5])
        self.assertEqual([figures.get("before") for figures in reported], [None, None, 2, 2, None, None])

    def test_round_trip(self):
        s = self.state()
        for _ in range(4):
            s.model.weight += 1
            s.commit(loss=0.5)
        s.best = 0.75
        path = s.save()
        self.assertEqual(path, os.path.join(self.dir, "step-4"))
        mark = json.loads(pathlib.Path(path, ".elastic-commit").read_text())
        self.assertEqual(
            mark, {"step": 4, "samples": 100, "epoch": 1, "seed": 0, "consumed": 0, "dataset_size": 100}
        )
        again = self.state()
        self.assertTrue(again.load())
        self.assertEqual((again.step, again.samples, again.best, again.model.weight), (4, 100, 0.75, 4.0))
        self.assertIsNone(again.save(), "what was loaded is not saved again")

    def test_nothing_to_load(self):
        self.assertFalse(self.state().load())

    def test_torn_checkpoints_do_not_count(self):
        s = self.state(keep=3)
        for _ in range(3):
            s.commit()
            s.save()
        os.remove(os.path.join(self.dir, "step-3", ".elastic-commit"))
        again = self.state(keep=3)
        self.assertTrue(again.load())
        self.assertEqual(again.step, 2)
        again.commit()
        again.commit()
        again.save()
        self.assertEqual(saving.steps(self.dir), [4, 2, 1], "the torn one is cleared away")

    def test_old_checkpoints_are_removed_and_later_ones_left(self):
        os.mkdir(os.path.join(self.dir, "step-9"))
        s = self.state(keep=2)
        for _ in range(4):
            s.commit()
            s.save()
        self.assertEqual(saving.steps(self.dir), [9, 4, 3])

    def test_never_silently_from_scratch(self):
        self.be({"ELASTIC_RESUME_FROM": os.path.join(self.dir, "step-7"), "ELASTIC_DRAIN_FILE": "/nonexistent/drain"})
        with self.assertRaisesRegex(LoadError, "step-7"):
            self.state().load()
        os.mkdir(os.path.join(self.dir, "step-7"))
        pathlib.Path(self.dir, "step-7", "state.pkl").write_bytes(b"torn")
        with self.assertRaisesRegex(LoadError, "cannot be read"):
            self.state().load()

    def test_the_named_checkpoint_and_not_the_newest(self):
        s = self.state()
        for _ in range(2):
            s.commit()
            s.save()
        self.be({"ELASTIC_RESUME_FROM": os.path.join(self.dir, "step-1")})
        again = self.state()
        again.load()
        self.assertEqual(again.step, 1)

    def test_managed_without_a_commit_starts_from_scratch(self):
        s = self.state()
        s.commit()
        s.save()
        self.be({"ELASTIC_DRAIN_FILE": os.path.join(self.dir, "drain")})
        self.assertFalse(self.state().load(), "what was never committed is not loaded on one node alone")

    def test_another_sampler_changes_nothing(self):
        s = self.state()
        s.model.weight = 3.0
        s.commit()
        s.save()
        again = self.state(sampler=Sampler(100, seed=1))
        with self.assertRaisesRegex(LoadError, "seed=0"):
            again.load()
        self.assertEqual((again.step, again.model.weight), (0, 0.0))
        with self.assertRaisesRegex(LoadError, "has no extra"):
            self.state(extra=1).load()

    def test_ranks_that_would_take_other_samples_are_refused(self):
        mine = self.state()._terms()
        for name, value in (("n", 99), ("seed", 1), ("shuffle", False), ("global batch", 64), ("accumulation", 2)):
            with unittest.mock.patch.object(state_module, "gather", lambda terms: [terms, {**mine, name: value}]):
                with self.assertRaisesRegex(ElasticError, f"rank 1 has {name}={value}, rank 0 has {name}="):
                    self.state().load()
        with unittest.mock.patch.object(state_module, "gather", lambda terms: [terms, mine]):
            self.assertFalse(self.state().load())

    def test_a_disk_that_takes_nothing_does_not_end_training(self):
        s = self.state(save_every=1)
        for error in (OSError("no space left on device"), RuntimeError("unexpected pos 64 vs 0")):
            full = types.ModuleType("torch")
            full.save = unittest.mock.Mock(side_effect=error)
            tensor = type("Tensor", (), {"__module__": "torch"})
            s.best = tensor()
            with unittest.mock.patch.dict(sys.modules, {"torch": full}), contextlib.redirect_stderr(io.StringIO()) as said:
                s.commit()
                s._course.keeping.wait()
                self.assertIn("training goes on", said.getvalue())
                with self.assertRaises(OSError):
                    s.save()
        self.assertFalse(any(saving.is_whole(self.dir, step) for step in saving.steps(self.dir)))
        s.best = 0.5
        s.commit()
        s._course.keeping.wait()
        self.assertTrue(saving.is_whole(self.dir, 3))

    def test_only_rank_0_writes(self):
        self.be({"RANK": "1", "WORLD_SIZE": "2"})
        s = self.state(save_every=1)
        s.commit()
        self.assertIsNone(s.save())
        self.assertEqual(os.listdir(self.dir), [])

    def test_save_every(self):
        s = self.state(save_every=2)
        for _ in range(5):
            s.commit()
        s._course.keeping.wait()
        self.assertEqual(saving.steps(self.dir), [4, 2])
        s = self.state(save_every="1h")
        s.commit()
        self.assertEqual(saving.steps(self.dir), [4, 2])
        for bad in ("soon", "0", 0, -1, 1.5, ""):
            with self.assertRaises(ElasticError):
                self.state(save_every=bad)

    def test_nonsense_is_refused(self):
        for values in ({"save": 1}, {"_x": 1}, {"step": -1}, {"step": "0"}, {"other": Sampler(5)}, {"keep": 0}):
            with self.assertRaises(ElasticError):
                self.state(**values)

    def test_the_world_follows_the_state(self):
        w = self.be({"ELASTIC_GLOBAL_BATCH_SIZE": "3", "RANK": "1", "WORLD_SIZE": "2", "ELASTIC_BATCH_SIZE": "1"})
        s = self.state(sampler=Sampler(4))
        self.assertAlmostEqual(w.loss_weight, 2 / 3)
        s.commit()
        self.assertEqual(w.loss_weight, 0, "one sample is left, and it is rank 0's")

    def test_a_wrapper_leaves_no_trace(self):
        wrapper = type("DistributedDataParallel", (), {})()
        wrapper.module = Model(2.0)
        s = self.state(model=wrapper)
        s.commit()
        s.save()
        bare = self.state()
        bare.load()
        self.assertEqual(bare.model.weight, 2.0)

    def test_the_format_is_that_of_the_values(self):
        for framework, name in (("torch", "state.pt"), ("paddle", "state.pdparams")):
            with self.subTest(framework=framework):
                fake = types.ModuleType(framework)
                tensor = type("Tensor", (), {"__module__": framework + ".tensor"})
                fake.save = lambda content, path: pathlib.Path(path).write_text("saved")
                fake.load = lambda path, **_: {"step": 7, "samples": 9, "weight": pathlib.Path(path).read_text()}
                with unittest.mock.patch.dict(sys.modules, {framework: fake}):
                    s = State(save_every=None, weight=[{"w": tensor()}])
                    s.commit()
                    self.assertTrue(os.path.exists(os.path.join(s.save(), name)))
                    s.load()
                self.assertEqual((s.step, s.samples, s.weight), (7, 9, "saved"))

    def test_samples_without_a_sampler(self):
        s = State(save_every=None, model=types.SimpleNamespace())
        s.commit()
        s.commit()
        self.assertEqual((s.step, s.samples), (2, 64))
