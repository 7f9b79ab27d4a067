"""What is refused, and where a step ends."""

import contextlib
import io
import json
import pathlib
import random
import tempfile
import types
import unittest
import unittest.mock

from elastic import (
    ElasticError,
    Sampler,
    State,
    agreement,
    blocked,
    copying,
    course,
    environment,
    fingerprint,
    keeping,
    leaving,
    rates,
    saving,
    weighing,
)
from elastic.randomness import Randomness

from .worlds import being


class Schedule:
    last_epoch = 0

    def __init__(self):
        self.steps = 0

    def step(self):
        self.steps += 1

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]


class CourseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        context = being(environment.read({"ELASTIC_CHECKPOINT_DIR": self.dir}))
        self.addCleanup(context.__exit__, None, None, None)
        context.__enter__()

    def test_samples_at_the_end_of_an_epoch(self):
        """The last step of an epoch counts in the script, in the progress and in the mark of a save."""
        s = State(save_every=11, sampler=Sampler(500))
        seen, reported = [], []
        with unittest.mock.patch.object(course.reporter(), "report", reported.append):
            for _ in s.sampler.epochs(2):
                for _ in s.sampler:
                    s.end_step()
                seen.append(s.samples)
        s._course.keeping.wait()
        self.assertEqual(seen, [500, 1000])
        samples = [figures["samples"] for figures in reported]
        self.assertEqual(samples, sorted(samples))
        self.assertEqual(samples[-1], 1000)
        marks = pathlib.Path(self.dir).glob("step-*/.elastic-commit")
        self.assertTrue(all(json.loads(mark.read_text())["samples"] for mark in marks))

    def test_code_that_runs_once(self):
        """Once for what is saved, and again where a step was interrupted before it ended."""
        s = State(save_every=1, keep=100, sampler=Sampler(96))
        ran = []
        for epoch in s.sampler.epochs(1):
            if s.once(f"begin {epoch}"):
                ran.append("begin")
            for number, _ in enumerate(s.sampler):
                if number == 1 and s.once("second"):
                    ran.append("second")
                s.end_step()
                if number == 1:
                    break
        s._course.keeping.wait()
        self.assertEqual(ran, ["begin", "second"])
        with being(environment.read({"ELASTIC_CHECKPOINT_DIR": self.dir, "ELASTIC_RESUME_FROM": self.dir + "/step-1"})):
            later = State(save_every=1, keep=100, sampler=Sampler(96))
            later.load()
        self.assertFalse(later.once("begin 0"), "it was saved with the first step")
        self.assertTrue(later.once("second"), "its step was not ended when step 1 was saved")

    def test_a_loader_that_begins_again_is_told(self):
        for step, told in ((0, 0), (3, 1)):
            s = State(step=step)
            with contextlib.redirect_stderr(io.StringIO()) as said:
                with being(environment.read({"ELASTIC_GENERATION": "2"})):
                    for _ in range(2):
                        for _ in s.steps([1]):
                            s.end_step()
            self.assertEqual(said.getvalue().count("no elastic.Sampler"), told, step)

    def test_code_that_runs_once_runs_on_all_ranks(self):
        states = [State(save_every=None), State(save_every=None)]
        states[0].once("upload")
        prints = [fingerprint.of(s._course._values(), (0, 0)) for s in states]
        self.assertNotEqual(*prints)
        sizes = [fingerprint.sizes(s._course._values()) for s in states]
        self.assertEqual(fingerprint.difference(sizes), "rank 1 has no once.upload")

    def test_the_code_after_an_epoch_is_saved_with_the_next_step_or_made_again(self):
        """A save at the last step of an epoch is from before the code after it."""
        for saved_at, steps_in_file in ((3, 0), (4, 1)):
            s = State(save_every=1, keep=100, sampler=Sampler(96), schedule=Schedule())
            for _ in s.sampler.epochs(2):
                for _ in s.sampler:
                    s.end_step()
                s.schedule.step()
            s._course.keeping.wait()
            again = State(sampler=Sampler(96), schedule=Schedule())
            with unittest.mock.patch.object(saving, "newest", lambda _: saving.path_of(self.dir, saved_at)):
                again.load()
            self.assertEqual((again.step, again.schedule.steps), (saved_at, steps_in_file))
            ends = []
            for epoch in again.sampler.epochs(2):
                for _ in again.sampler:
                    again.end_step()
                again.schedule.step()
                ends.append(epoch)
            again._course.keeping.wait()
            self.assertEqual((again.step, again.schedule.steps, ends[-1]), (6, 2, 1))
            self.assertEqual(len(ends), 2 if saved_at == 3 else 1)

    def test_a_save_in_the_middle_is_made_at_the_end(self):
        s = State(save_every=None, sampler=Sampler(64), best=0)
        for _ in s.sampler.epochs(1):
            for _ in s.sampler:
                s.end_step()
            self.assertIsNone(s.save())
            s.best = 1
        s._course.keeping.wait()
        again = State(sampler=Sampler(64), best=0)
        self.assertTrue(again.load())
        self.assertEqual((again.step, again.best, again.sampler.epoch), (2, 1, 1))

    def test_a_batch_that_is_not_ended(self):
        s = State(save_every=None, sampler=Sampler(96))
        with self.assertRaisesRegex(ElasticError, "batch after that of step 1, which was not ended"):
            for _ in s.sampler:
                pass
        with self.assertRaisesRegex(ElasticError, "not ended"):
            for _ in s.steps(s.sampler.batch_sampler()):
                pass

    def test_a_batch_that_is_ended_twice(self):
        s = State(save_every=None, sampler=Sampler(96))
        with self.assertRaisesRegex(ElasticError, "called twice"):
            for _ in s.sampler:
                s.end_step()
                s.end_step()

    def test_a_step_that_the_script_counts(self):
        s = State(save_every=None)
        with self.assertRaisesRegex(ElasticError, "counted by state.end_step"):
            s.step += 1
        State(content=1, take=2, hold=3)  # names of the script

    def test_loaders_with_a_position_and_sharded_values(self):
        for name in ("StatefulDataLoader",):
            with self.assertRaisesRegex(ElasticError, "position is that of one rank"):
                State(loader=type(name, (), {})())
        part = types.SimpleNamespace(param_groups=[{"params": [types.SimpleNamespace(_is_flat_param=True)]}])
        with self.assertRaisesRegex(ElasticError, "FlatParameter.*--save-from=all"):
            State(optimizer=part)
        s = State(optimizer=None)
        s.optimizer = part
        for call in (s.save, s.load):
            with self.assertRaisesRegex(ElasticError, "FlatParameter"):
                call()

    def test_a_mesh_of_the_sampler(self):
        w = environment.read({"RANK": "3", "WORLD_SIZE": "4", "ELASTIC_GLOBAL_BATCH_SIZE": "8"})
        with being(w):
            mesh = types.SimpleNamespace(ndim=1, get_local_rank=lambda: 1, size=lambda: 2)
            for sampler in (Sampler(8, shuffle=False, mesh=mesh), Sampler(8, shuffle=False, rank=1, size=2)):
                self.assertEqual((sampler.indices(0, 0), sampler.loss_weight), ([1, 3, 5, 7], 1.0))
            for wrong in ({"rank": 2, "size": 2}, {"ranks": 1}, {"mesh": types.SimpleNamespace(ndim=2)}):
                with self.assertRaises(ElasticError):
                    Sampler(8, **wrong)

    def test_weights_of_tokens(self):
        with being(environment.read({"RANK": "0", "WORLD_SIZE": "2"})):
            with unittest.mock.patch.object(weighing, "gather", lambda mine: [mine, 6.0]):
                self.assertEqual(weighing.weights([1, 3]), [0.2, 0.6])
                self.assertEqual(weighing.weight(0), 0.0)


    def test_saves_hold_training_up_for_a_share_of_the_time(self):
        now = iter([0.0, 30.0, 30.0, 36.0, 61.0, 329.0, 331.0])
        with unittest.mock.patch.object(keeping.time, "monotonic", lambda: next(now)):
            k = keeping.Keeping("30s", self.dir, 2)
            self.assertTrue(k.due(1))
            k.begin((1, 0), dict, {"step": 1})
            k.wait()
            self.assertEqual([k.due(2), k.due(3), k.due(4)], [False, False, True])


class NetTest(unittest.TestCase):
    def test_fingerprints_and_what_differs(self):
        values = {"schedule": Schedule(), "note": "any"}
        before = fingerprint.of(values, (4, 0))
        self.assertEqual(before, fingerprint.of({"schedule": Schedule(), "note": "other"}, (4, 0)))
        self.assertNotEqual(before, fingerprint.of(values, (4, 1)))
        values["schedule"].step()
        self.assertNotEqual(before, fingerprint.of(values, (4, 0)))
        mine, theirs = {"model.w": (1.0, 10.0), "rate": (0.1, 0.0)}, {"model.w": (1.0005, 10.0), "rate": (0.1, 0.0)}
        self.assertIsNone(fingerprint.difference([mine, theirs]))
        self.assertIn("model.w is 1.01 on rank 1", fingerprint.difference([mine, {**mine, "model.w": (1.01, 10.0)}]))
        self.assertIn("rate is 0.05", fingerprint.difference([mine, {**mine, "rate": (0.05, 0.0)}]))
        self.assertIn("rank 1 has no rate", fingerprint.difference([mine, {"model.w": (1.0, 10.0)}]))

    def test_states_that_differ_end_training(self):
        one = {"place": [4, 0], "sizes": {"rate": (0.1, 0.0)}}
        for other, words in (
            ({"place": [5, 0], "sizes": {}}, "rank 1 has ended step 5"),
            ({"place": [4, 0], "sizes": {"rate": (0.2, 0.0)}}, "different states after step 4: rate is 0.2 on rank 1"),
        ):
            with unittest.mock.patch.object(agreement, "gather", lambda _: [one, other]):
                with self.assertRaisesRegex(ElasticError, words):
                    agreement._explain({}, (4, 0))

    def test_a_copy_shares_nothing(self):
        value = {"a": [1, {"b": [2]}], "c": (3,)}
        copy = copying.Copier(copying.in_place).copy(value)
        value["a"][1]["b"].append(9)
        self.assertEqual(copy, {"a": [1, {"b": [2]}], "c": (3,)})

    def test_random_numbers_follow_the_step(self):
        def numbers(restarts_at):
            random.seed(7)
            mine, taken = Randomness(), []
            mine.set(restarts_at)
            for step in range(restarts_at, 4):
                taken.append(random.random())
                mine.set(step + 1)
            return taken

        self.assertEqual(numbers(0)[2:], numbers(2))
        self.assertEqual(len(set(numbers(0))), 4)

    def test_seeds_of_samples(self):
        sampler = Sampler(100)
        seeds = {sampler.seed_of(i) for i in range(100)}
        sampler.epoch = 1
        self.assertEqual(len(seeds | {sampler.seed_of(i) for i in range(100)}), 200)

    def test_rates_keep_their_ratios(self):
        optimizer = types.SimpleNamespace(param_groups=[{"lr": 0.1}, {"lr": 0.01}])
        for factor in (1.0, 0.0, 0.5):
            rates.set_rate(optimizer, 0.2, factor)
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.1)
        self.assertAlmostEqual(optimizer.param_groups[1]["lr"], 0.01)

    def test_an_adaptive_optimizer_that_is_scaled_linearly_is_named_once(self):
        adam = type("AdamW", (), {"param_groups": [{"lr": 0.1}]})()
        sgd = type("SGD", (), {"param_groups": [{"lr": 0.1}]})()
        for scaling, optimizer, said in (("sqrt", adam, 0), ("linear", sgd, 0), ("linear", adam, 1)):
            w = environment.read({"ELASTIC_SCALING": scaling, "ELASTIC_LR_SCALE": "2"})
            with contextlib.redirect_stderr(io.StringIO()) as out:
                for _ in range(3):
                    w.set_lr(optimizer)
            self.assertEqual(out.getvalue().count("--scaling=sqrt"), said, (scaling, optimizer))

    def test_a_schedule_is_scaled_once(self):
        class Optimizer:
            param_groups = [{"lr": 0.05, "initial_lr": 0.1}, {"lr": 0.005, "initial_lr": 0.01}]

        optimizer = Optimizer()
        schedule = type("StepLR", (Schedule,), {"__module__": "torch.optim.lr_scheduler"})()
        schedule.optimizer, schedule.base_lrs = optimizer, [0.1, 0.01]
        for _ in range(2):
            rates.set_rate(optimizer, 0.2, 1.0)
        self.assertEqual([g["lr"] for g in optimizer.param_groups], [0.1, 0.01])
        self.assertEqual(schedule.base_lrs, [0.2, 0.02])
        for kind in ("Mine", "CyclicLR"):  # it has two rates, and either may be that of the launcher
            type(schedule).__name__ = kind
            with self.assertRaisesRegex(ElasticError, f"cannot scale the schedule {kind}"):
                rates.set_rate(optimizer, 0.4, 1.0)

    def test_a_request_of_the_script_that_timed_out_is_no_lost_rank(self):
        for error in (ConnectionResetError("connection reset"), TimeoutError("timed out"), RuntimeError("request timed out")):
            try:
                raise error
            except Exception as raised:
                self.assertFalse(leaving.is_of_communication(raised), raised)
        try:
            raise RuntimeError("[gloo/transport/tcp/pair.cc:598] Connection closed by peer")
        except RuntimeError as raised:
            self.assertTrue(leaving.is_of_communication(raised))

    def test_a_script_in_a_directory_named_torch_is_no_torch(self):
        for name, inside in (("__main__", False), ("torchlike", False), ("torch.distributed", True), ("torch", True)):
            frame = types.SimpleNamespace(f_globals={"__name__": name}, f_code=types.SimpleNamespace(co_filename="/torch/x.py"))
            with unittest.mock.patch.object(blocked.sys, "_current_frames", lambda: {1: frame}):
                self.assertEqual(blocked.in_torch(1), inside, name)

    def test_a_sampler_without_a_state_weighs(self):
        with being(environment.read({"RANK": "1", "WORLD_SIZE": "2", "ELASTIC_GLOBAL_BATCH_SIZE": "2"})) as w:
            Sampler(1)
            self.assertEqual(w.loss_weight, 0.0)


if __name__ == "__main__":
    unittest.main()
