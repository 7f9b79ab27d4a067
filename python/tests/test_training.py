"""The training function, with a simulated agent and a simulated process group."""

import contextlib
import gc
import io
import json
import os
import queue
import socket
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

from elastic import environment, group, leaving, saving, stopping, torch_private, training
from elastic.agent import Left, connect
from elastic.environment import World
from elastic.errors import ElasticError, LoadError
from elastic.sampler import Sampler
from elastic.state import State


def until(condition):
    """Wait for a change by another thread."""
    while not condition():
        time.sleep(0.001)


class PlayedAgent:
    """The other end of the socket. It has one store, for all generations."""

    def __init__(self, directory, refuse=None):
        self.path = os.path.join(directory, "agent.sock")
        self.said = queue.Queue()
        self.control = None
        self.values = {}
        self._changed = threading.Condition()
        self._refuse = refuse
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        if self.control is not None:
            self.control.close()

    def send(self, **line):
        until(lambda: self.control is not None)
        self.control.sendall(json.dumps(line).encode() + b"\n")

    def hears(self, name):
        while True:
            line = self.said.get(timeout=60)
            if name in line:
                return line[name]

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError, ValueError):
            lines = connection.makefile("rb")
            opening = json.loads(lines.readline())
            if "store" in opening and self._refuse:
                connection.sendall(json.dumps({"refused": self._refuse}).encode() + b"\n")
                return
            if "store" in opening:
                for line in lines:
                    connection.sendall(json.dumps(self._answer(json.loads(line))).encode() + b"\n")
                return
            self.control = connection
            if self._refuse:
                self.send(refused=self._refuse)
                return
            for line in lines:
                self.said.put(json.loads(line))

    def _answer(self, request):
        with self._changed:
            if request["generation"] == 0 or request["keys"] == ["refused"]:
                return {"values": None, "found": False, "error": "context canceled"}
            if request["op"] == "set":
                for key, value in zip(request["keys"], request["values"]):
                    self.values[request["generation"], key] = value
                self._changed.notify_all()
                return {"values": [], "found": True}
            keys = [(request["generation"], key) for key in request["keys"]]
            found = self._changed.wait_for(lambda: all(k in self.values for k in keys), request["wait_ms"] / 1000)
            return {"values": [self.values[k] for k in keys] if found else [], "found": found}


class PlayedGroup:
    """A process group of one rank."""

    gate = None

    def __init__(self, agent, backend):
        self.agent, self.opened, self.interrupts = agent, [], 0
        self.busy = threading.Event()  # data move between the ranks
        self.meets = False
        self.keeps = False  # the script keeps a group of new_group
        self.broken = threading.Event()
        self.doubtful = threading.Event()  # its collectives may have ended without a result
        PlayedGroup.newest = self

    def open(self, world, word):
        self.opened.append((world.generation, word["place"] and word["place"][0]))
        return self.exchange(world, word, "word")

    def exchange(self, world, word, name):
        self.agent.set(f"{name}/{world.rank}", json.dumps(word).encode())
        return [word]

    def device(self):
        return "cpu"

    def check(self):
        if self.doubtful.is_set():
            raise leaving.WorldChanged

    def quiet(self):
        return not self.busy.is_set()

    def aborting(self):
        return None

    def interrupt(self):
        self.interrupts += 1
        self.broken.set()

    def leave(self):
        self.broken.clear()
        return self.keeps

    def close(self):
        self.broken.set()

    def collective(self):
        """Blocks until it is interrupted."""
        if not self.broken.wait(60):
            raise AssertionError("it is not broken off")
        raise RuntimeError("Connection closed by peer")


class PlayedWorld(unittest.TestCase):
    """A training function with a simulated agent and group."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.agent = PlayedAgent(directory.name)
        self.addCleanup(self.agent.close)
        dist = types.ModuleType("torch.distributed")
        dist.is_initialized = lambda: False
        dist.is_available = lambda: True
        torch = types.ModuleType("torch")
        torch.distributed = dist
        for patch in (
            unittest.mock.patch.dict(sys.modules, {"torch": torch, "torch.distributed": dist}),
            unittest.mock.patch.dict(os.environ, {"ELASTIC_AGENT_SOCKET": self.agent.path, "ELASTIC_GENERATION": "1"}),
            unittest.mock.patch.object(training, "Group", PlayedGroup),
            unittest.mock.patch.object(torch_private, "missing", lambda dist: None),
            unittest.mock.patch.object(environment, "_current", World()),
            unittest.mock.patch.object(stopping, "_stopper", stopping.Stopper(None)),
            unittest.mock.patch.object(training, "WORD_LIMIT", 0.2),
            unittest.mock.patch.object(training, "FOLLOWS", 0.2),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def start(self, function, state=None):
        """Run a training function in a thread; the outcome comes out of the queue."""
        self.state = state or State(save_every=None)
        outcome = queue.Queue()
        run = training.train(self.state)(function)

        def body():
            try:
                outcome.put(run())
            except BaseException as error:  # SystemExit too
                outcome.put(error)

        threading.Thread(target=body, daemon=True).start()
        return outcome

    def change_world(self):
        """Have the worker leave generation 1, and hand it the next one."""
        self.agent.send(leave=1)
        self.agent.hears("left")
        self.hand(2)

    def hand(self, generation, **more):
        self.agent.send(world=dict({"ELASTIC_GENERATION": str(generation)}, **more))


class TrainingTest(PlayedWorld):
    def test_a_world_that_does_not_change(self):
        outcome = self.start(lambda world: "result")
        self.assertTrue(self.agent.hears("can_stay"))
        self.assertEqual(outcome.get(timeout=60), "result")
        self.assertFalse(self.agent.hears("can_stay"))

    def test_nothing_stays_frozen(self):
        """The collector sees all objects again when the function is over, however it ends."""
        counts = []

        def function(world):
            counts.append(gc.get_freeze_count())
            raise SystemExit(3)

        self.assertIsInstance(self.start(function).get(timeout=60), SystemExit)
        self.assertGreater(counts[0], 0)
        self.assertEqual(gc.get_freeze_count(), 0)

    def test_a_backend_that_was_never_seen_right_in_place(self):
        """The function is called as without an agent, so the workers are started again when the world changes."""
        for backend in ("nccl", "NCCL", "nccl2", "cpu:gloo,cuda:nccl", "cpu:gloo,cuda:nccl2", None, "mpi"):
            opened, said = [], io.StringIO()
            sys.modules["torch"].cuda = types.SimpleNamespace(is_available=lambda: True)
            with unittest.mock.patch.object(training, "open_alone", lambda w, b: opened.append(b)):
                with contextlib.redirect_stderr(said):
                    result = training.train(State(save_every=None), backend)(lambda world: "result")()
            self.assertEqual((result, opened), ("result", [backend]))
            self.assertIn("never seen to be right in place", said.getvalue())
            self.assertIn(group.named(backend), said.getvalue())
        self.assertIsNone(self.agent.control)

    def test_a_backend_that_stays(self):
        sys.modules["torch"].cuda = types.SimpleNamespace(is_available=lambda: False)
        for backend in ("gloo", "cpu:gloo", "cpu:gloo,cuda:gloo", None):
            self.assertIsNone(group.restarts(group.named(backend)))

    def test_a_torch_that_lacks_what_staying_needs(self):
        said = io.StringIO()
        with unittest.mock.patch.object(torch_private, "missing", lambda dist: "a Store of Python"):
            with unittest.mock.patch.object(training, "open_alone", lambda w, b: None), contextlib.redirect_stderr(said):
                training.train(State(save_every=None), "gloo")(lambda world: None)()
        self.assertIn("this torch lacks a Store of Python: this worker is started again", said.getvalue())
        self.assertIsNone(self.agent.control)

    def test_a_worker_that_waits_for_its_first_world(self):
        worlds = []
        os.environ["ELASTIC_WAITS"] = "1"
        outcome = self.start(lambda world: worlds.append(world.generation))
        self.assertTrue(self.agent.hears("can_stay"))
        self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": None})
        self.assertEqual(worlds, [])
        self.hand(5)
        self.assertIsNone(outcome.get(timeout=60))
        self.assertEqual(worlds, [5])
        self.assertEqual(PlayedGroup.newest.opened, [(5, None)])
        self.assertNotIn("ELASTIC_WAITS", os.environ)

    def test_the_function_is_left_out_of_a_collective_and_called_again(self):
        worlds = []

        def function(world):
            worlds.append((world.generation, self.state.step))
            if len(worlds) < 4:
                self.state.commit()
                PlayedGroup.newest.collective()
            return "result"

        outcome = self.start(function)
        for generation in (1, 2, 3):
            until(lambda: len(worlds) >= generation)
            self.agent.send(leave=generation)
            self.assertEqual(self.agent.hears("left"), {"generation": generation, "step": generation})
            self.hand(generation + 1)
        self.assertEqual(outcome.get(timeout=60), "result")
        self.assertEqual(worlds, [(1, 0), (2, 1), (3, 2), (4, 3)])
        self.assertEqual(PlayedGroup.newest.opened, [(1, None), (2, 1), (3, 2), (4, 3)])

    def test_a_step_whose_data_move_is_not_broken_off(self):
        """A collective of gloo that loses a write never ends."""
        begun, sent = threading.Event(), threading.Event()
        broken_off = []

        def function(world):
            if world.generation == 1:
                PlayedGroup.newest.busy.set()
                begun.set()
                sent.wait(60)
                broken_off.append(PlayedGroup.newest.interrupts)
                PlayedGroup.newest.busy.clear()
                PlayedGroup.newest.collective()
            return self.state.step

        with unittest.mock.patch.object(training, "BUSY_LIMIT", 60):
            outcome = self.start(function)
            begun.wait(60)
            looks = threading.Event()
            group, quiet = PlayedGroup.newest, PlayedGroup.newest.quiet
            group.quiet = lambda: (looks.set(), quiet())[1]
            self.agent.send(leave=1)
            self.assertTrue(looks.wait(60))
            sent.set()
            self.agent.hears("left")
            self.hand(2)
            self.assertEqual(outcome.get(timeout=60), 0)
            self.assertEqual(broken_off, [0])

    def test_ranks_that_go_on_sending_are_broken_off(self):
        def function(world):
            if world.generation == 1:
                PlayedGroup.newest.busy.set()
                PlayedGroup.newest.collective()

        outcome = self.start(function)
        until(lambda: PlayedGroup.newest.busy.is_set())
        self.agent.send(leave=1)
        self.agent.hears("left")
        PlayedGroup.newest.busy.clear()
        self.hand(2)
        self.assertIsNone(outcome.get(timeout=60))

    def test_a_collective_that_does_not_end_has_the_worker_started_again(self):
        begun, hangs, ended = threading.Event(), threading.Event(), queue.Queue()

        def function(world):
            begun.set()
            hangs.wait(60)

        def exit_now(status):
            ended.put(status)
            hangs.set()
            raise SystemExit

        watch = unittest.mock.Mock()
        watch.return_value.hangs.return_value = True
        with unittest.mock.patch.object(training, "Watch", watch), unittest.mock.patch("os._exit", exit_now):
            outcome = self.start(function)
            self.assertTrue(self.agent.hears("can_stay"))
            begun.wait(60)
            self.agent.send(leave=1)
            self.assertFalse(self.agent.hears("can_stay"))
            stopping.stopper()._asked = True
            self.assertEqual(ended.get(timeout=60), 143)
            self.hand(2)
            outcome.get(timeout=60)

    def test_a_rank_that_is_left_in_the_middle_of_a_step_makes_it_again(self):
        """What the step has changed is undone: the optimizer has stepped, and its step was not ended."""
        worlds = []

        def function(world):
            worlds.append((world.generation, self.state.step, list(self.state.history)))
            if world.generation == 1:
                self.state.history.append("a")
                self.state.commit()
                self.state.history.append("b")
                self.state._course._stepped()
                PlayedGroup.newest.collective()

        outcome = self.start(function, State(save_every=None, history=[]))
        until(lambda: worlds and self.state.history == ["a", "b"])
        self.agent.send(leave=1)
        self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": 1})
        self.hand(2)
        self.assertIsNone(outcome.get(timeout=60))
        self.assertEqual(worlds, [(1, 0, []), (2, 1, ["a"])])

    def test_the_rest_of_a_step_is_made_again_where_the_loop_does_not_come_back(self):
        """A loop over the sampler ends a step where it comes back, and not where end_step() is called."""
        worlds = []

        def function(world):
            for indices in self.state.sampler:
                worlds.append((world.generation, self.state.step, self.state.after))
                self.state.end_step()
                if len(worlds) == 2:
                    PlayedGroup.newest.collective()
                self.state.after += 1

        outcome = self.start(function, State(save_every=None, sampler=Sampler(96), after=0))
        until(lambda: len(worlds) == 2 and self.state.step == 2)
        self.agent.send(leave=1)
        self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": 1})
        self.hand(2, ELASTIC_GLOBAL_BATCH_SIZE="32")
        self.assertIsNone(outcome.get(timeout=60))
        self.assertEqual(worlds, [(1, 0, 0), (1, 1, 1), (2, 1, 1), (2, 2, 2)])
        self.assertEqual((self.state.step, self.state.after), (3, 3))

    def test_the_end_of_an_epoch_is_made_again_and_no_step_of_it(self):
        ends = []

        def function(world):
            for epoch in self.state.sampler.epochs(2):
                for indices in self.state.sampler:
                    self.state.end_step()
                self.state.schedule += 1
                ends.append((world.generation, epoch, self.state.step, self.state.schedule))
                if len(ends) == 1:
                    PlayedGroup.newest.collective()

        outcome = self.start(function, State(save_every=None, sampler=Sampler(64), schedule=0))
        until(lambda: ends)
        self.agent.send(leave=1)
        self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": 2})
        self.hand(2, ELASTIC_GLOBAL_BATCH_SIZE="32")
        self.assertIsNone(outcome.get(timeout=60))
        self.assertEqual(ends, [(1, 0, 2, 1), (2, 0, 2, 1), (2, 1, 4, 2)])

    def test_no_rank_has_a_whole_state_and_there_is_no_checkpoint(self):
        """The state of this process is already trained: the process is started again, and spends no restart."""
        worlds = []

        def function(world):
            worlds.append(world.generation)
            self.state.commit()
            self.state._course._held = False  # the state of another rank came in part
            PlayedGroup.newest.collective()

        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            outcome = self.start(function)
            until(lambda: worlds)
            self.agent.send(leave=1)
            self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": None})
            self.hand(2)
            end = outcome.get(timeout=60)
        self.assertIsInstance(end, SystemExit)
        self.assertEqual(end.code, 101)
        self.assertEqual(worlds, [1])
        self.assertIn("training begins anew", said.getvalue())

    def test_the_function_is_left_between_two_steps(self):
        begun = threading.Event()

        def function(world):
            begun.set()
            while world.generation == 1:
                self.state.commit()
            return self.state.step

        outcome = self.start(function)
        begun.wait(60)
        self.agent.send(leave=1)
        step = self.agent.hears("left")["step"]
        self.hand(2)
        self.assertEqual(outcome.get(timeout=60), step)

    def test_a_world_that_is_over_before_all_ranks_have_come(self):
        """The second rank never comes; the next world has one."""
        environment._current.size = 2
        hold = lambda g, w, word: g.agent.get(["none"], 60) if w.size == 2 else [word]  # noqa: E731
        with unittest.mock.patch.object(PlayedGroup, "open", hold):
            outcome = self.start(lambda world: world.generation)
            self.agent.hears("can_stay")
            self.agent.send(leave=1)
            self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": None})
            self.hand(2, WORLD_SIZE="1")
            self.assertEqual(outcome.get(timeout=60), 2)

    def test_connections_of_the_next_world_are_left_alone(self):
        """This rank leaves by itself, between two steps, before the thread that interrupts it runs."""
        late = []
        start = threading.Thread.start

        class Late(threading.Thread):
            def start(self):
                late.append(self) if self.name == "elastic-leave" else super().start()

        begun = threading.Event()

        def function(world):
            begun.set()
            while world.generation == 1:
                self.state.commit()
            before = PlayedGroup.newest.interrupts
            for thread in late:
                start(thread)
                thread.join(60)
            return PlayedGroup.newest.interrupts - before

        with unittest.mock.patch.object(training.threading, "Thread", Late):
            outcome = self.start(function)
            begun.wait(60)
            self.change_world()
            self.assertEqual(outcome.get(timeout=60), 0)
        self.assertEqual(len(late), 1)

    def test_a_store_that_fails_before_the_word_to_leave_comes(self):
        def fails(group, world, word):
            return [word] if world.generation > 1 else group.agent.get(["refused"], 60)

        with unittest.mock.patch.object(training, "WORD_LIMIT", 60), unittest.mock.patch.object(PlayedGroup, "open", fails):
            outcome = self.start(lambda world: world.generation)
            self.agent.hears("can_stay")
            self.change_world()
            self.assertEqual(outcome.get(timeout=60), 2)

    def test_a_rank_whose_last_step_is_broken_off_has_the_others_once_more(self):
        """This rank has finished, and the other one has not, when the world changes."""
        environment._current.size = 2
        calls = []
        with unittest.mock.patch.object(PlayedGroup, "open", lambda g, w, word: [word]):
            outcome = self.start(lambda world: calls.append(world.generation))
            self.agent.hears("can_stay")
            until(lambda: calls)
            self.agent.send(leave=1)
            self.agent.hears("left")
            self.hand(2, WORLD_SIZE="1")
            outcome.get(timeout=60)
        self.assertEqual(calls, [1, 2])

    def test_ranks_that_are_through_meet_those_that_come_new(self):
        """A process that begins in the second world knows nothing of the first."""
        environment._current.size = 2

        def through(generation):
            return {key for g, key in self.agent.values if g == generation and "through" in key}

        with unittest.mock.patch.object(PlayedGroup, "open", lambda g, w, word: [word]):
            outcome = self.start(lambda world: None)
            self.agent.hears("can_stay")
            until(lambda: through(1))
            self.agent.send(leave=1)
            self.agent.hears("left")
            self.hand(2, WORLD_SIZE="1")
            outcome.get(timeout=60)
        self.assertEqual(through(1), through(2))

    def test_no_thread_outlives_the_training_function(self):
        runs = threading.Event()

        def function(world):
            runs.set()
            PlayedGroup.newest.broken.wait(60)
            raise SystemExit(3)

        outcome = self.start(function)
        runs.wait(60)
        self.agent.send(leave=1)
        self.assertIsInstance(outcome.get(timeout=60), SystemExit)
        for thread in threading.enumerate():
            if thread.name == "elastic-leave":
                thread.join(10)
                self.assertFalse(thread.is_alive())

    def test_an_error_of_the_script_is_raised(self):
        def function(world):
            raise KeyError("mine")

        error = self.start(function).get(timeout=60)
        self.assertIsInstance(error, KeyError)
        self.assertTrue(self.agent.hears("can_stay"))
        self.assertFalse(self.agent.hears("can_stay"))

    def test_a_collective_that_fails_for_no_reason_is_raised(self):
        def function(world):
            raise RuntimeError("Connection closed by peer")

        self.assertIsInstance(self.start(function).get(timeout=60), RuntimeError)

    def test_an_error_of_the_script_while_the_world_changes_is_tried_again(self):
        leaving = threading.Event()

        def function(world):
            if world.generation == 1:
                leaving.set()
                PlayedGroup.newest.broken.wait(60)
                raise KeyError("a consequence")
            return "result"

        outcome = self.start(function)
        leaving.wait(60)
        self.change_world()
        self.assertEqual(outcome.get(timeout=60), "result")

    def test_an_error_before_the_word_to_leave_may_follow_from_a_lost_rank(self):
        """The script catches the errors of its steps, and its sampler ends without a step."""
        begun = threading.Event()

        def function(world):
            if world.generation == 1:
                begun.set()
                raise ElasticError("the sampler went through an epoch without a committed step")
            return "result"

        with unittest.mock.patch.object(training, "FOLLOWS", 60):
            outcome = self.start(function)
            begun.wait(60)
            self.change_world()
            self.assertEqual(outcome.get(timeout=60), "result")

    def test_a_step_that_catches_every_exception_is_left_at_the_next_call_of_a_module(self):
        modules = self.play_modules()
        calls = []

        def function(world):
            calls.append(world.generation)
            while world.generation == 1:
                with contextlib.suppress(Exception):
                    PlayedGroup.newest.collective()
                modules.call()
            modules.call()
            return modules.hooks

        outcome = self.start(function)
        until(lambda: calls)
        self.agent.send(leave=1)
        self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": 0})
        self.hand(2)
        self.assertEqual(outcome.get(timeout=60), [])
        self.assertEqual(calls, [1, 2])

    def test_modules_may_be_called_between_the_optimizer_and_commit(self):
        """A rank that is left there would make its step again."""
        modules = self.play_modules()
        begun = threading.Event()

        def function(world):
            begun.set()
            if world.generation == 1:
                self.state._course._stepped()
                until(lambda: modules.hooks)
                modules.call()
                self.state.commit()
            return "result"

        outcome = self.start(function)
        begun.wait(60)
        self.agent.send(leave=1)
        self.assertEqual(self.agent.hears("left"), {"generation": 1, "step": 1})
        self.hand(2)
        self.assertEqual(outcome.get(timeout=60), "result")

    def test_modules_may_be_called_in_other_threads(self):
        modules = self.play_modules()
        begun = threading.Event()
        called = queue.Queue()

        def other():
            modules.call()
            called.put(True)

        def function(world):
            begun.set()
            if world.generation == 1:
                until(lambda: modules.hooks)
                threading.Thread(target=other).start()
                called.get(timeout=60)
                modules.call()

        outcome = self.start(function)
        begun.wait(60)
        self.change_world()
        self.assertIsNone(outcome.get(timeout=60))

    def test_a_script_that_catches_world_changed_is_started_again(self):
        modules = self.play_modules()
        begun = threading.Event()
        ended = queue.Queue()

        def function(world):
            begun.set()
            while world.generation == 1 and ended.empty():
                with contextlib.suppress(BaseException):
                    modules.call()

        def exit_now(status):
            ended.put(status)
            raise SystemExit

        said = io.StringIO()
        with unittest.mock.patch("os._exit", exit_now), contextlib.redirect_stderr(said):
            outcome = self.start(function)
            self.assertTrue(self.agent.hears("can_stay"))
            begun.wait(60)
            self.agent.send(leave=1)
            self.assertFalse(self.agent.hears("can_stay"))
            stopping.stopper()._asked = True
            outcome.get(timeout=60)
        self.assertEqual(ended.get(timeout=60), 143)
        self.assertIn("catches WorldChanged", said.getvalue())

    def test_a_worker_that_keeps_a_group_of_an_old_world_does_not_stay(self):
        begun = threading.Event()

        def function(world):
            begun.set()
            PlayedGroup.newest.keeps = world.generation == 1
            if world.generation == 1:
                PlayedGroup.newest.collective()

        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            outcome = self.start(function)
            self.assertTrue(self.agent.hears("can_stay"))
            begun.wait(60)
            self.agent.send(leave=1)
            self.assertFalse(self.agent.hears("can_stay"))
            self.hand(2)
            self.assertIsNone(outcome.get(timeout=60))
        self.assertIn("a group of new_group is kept", said.getvalue())

    def play_modules(self):
        """torch's module of modules, in place of that of the machine."""
        modules = types.ModuleType("torch.nn.modules.module")
        modules.hooks = []

        class Handle:
            def remove(self):
                modules.hooks.clear()

        def register(hook):
            modules.hooks.append(hook)
            return Handle()

        modules.register_module_forward_pre_hook = register
        modules.call = lambda: [hook(None, ()) for hook in modules.hooks]
        patches = (
            unittest.mock.patch.dict(sys.modules, {"torch.nn.modules.module": modules}),
            unittest.mock.patch.object(training, "BUSY_LIMIT", 0.05),
            unittest.mock.patch.object(leaving, "CAUGHT", 0.05),
        )
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)
        return modules

    def test_a_rank_that_is_asked_to_stop_while_it_waits_saves_and_ends(self):
        with tempfile.TemporaryDirectory() as directory:
            drain = os.path.join(directory, "drain")
            stopping._stopper = stopping.Stopper.__new__(stopping.Stopper)
            stopping._stopper.__dict__.update(stopping.Stopper(None).__dict__, _drain_file=drain)
            state = State(save_every=None, checkpoint_dir=os.path.join(directory, "work"))

            def function(world):
                state.commit()
                PlayedGroup.newest.collective()

            outcome = self.start(function, state)
            until(lambda: state.step > 0)
            self.agent.send(leave=1)
            self.agent.hears("left")
            with open(drain, "w"):
                pass
            stopped = outcome.get(timeout=60)
            self.assertIsInstance(stopped, stopping.Stopped)
            self.assertEqual(stopped.code, stopping.STOPPED)
            self.assertEqual(os.listdir(os.path.join(directory, "work")), ["step-1"])

    def test_a_checkpoint_that_is_newer_than_the_state_is_loaded(self):
        """Rank 0 finished the step in which this rank was interrupted, saved it, and is lost."""
        with tempfile.TemporaryDirectory() as directory:
            saved = saving.write(directory, {"step": 8, "samples": 256}, {"step": 8, "samples": 256}, lambda: True)
            outcome, begun = self.leaves_at_step(7)
            self.hand(2, ELASTIC_RESUME_FROM=saved, ELASTIC_RESUME_STEP="8")
            self.assertIsNone(outcome.get(timeout=60))
            self.assertEqual(begun, [0, 8])

    def test_a_checkpoint_that_is_not_newer_is_left_alone(self):
        outcome, begun = self.leaves_at_step(7)
        self.hand(2, ELASTIC_RESUME_FROM="/nowhere", ELASTIC_RESUME_STEP="7")
        self.assertIsNone(outcome.get(timeout=60))
        self.assertEqual(begun, [0, 7])

    def test_no_world_begins_with_less_than_the_checkpoint(self):
        outcome, begun = self.leaves_at_step(7)
        self.hand(2, ELASTIC_RESUME_STEP="8")
        self.assertIsInstance(outcome.get(timeout=60), LoadError)
        self.assertEqual(begun, [0])

    def leaves_at_step(self, step):
        """A worker that has left generation 1, and the steps at which its function was called."""
        begun = []

        def function(world):
            begun.append(self.state.step)
            if world.generation == 1:
                while self.state.step < step:
                    self.state.commit()
                PlayedGroup.newest.collective()

        outcome = self.start(function)
        until(lambda: begun and self.state.step == step)
        self.agent.send(leave=1)
        self.assertEqual(self.agent.hears("left")["step"], step)
        return outcome, begun

    def test_a_process_group_of_the_script_is_refused(self):
        sys.modules["torch.distributed"].is_initialized = lambda: True
        self.assertIsInstance(self.start(lambda world: None).get(timeout=60), ElasticError)


class AgentTest(unittest.TestCase):
    def connect(self, on_leave=lambda *_: None, **how):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        agent = PlayedAgent(directory.name, **how)
        self.addCleanup(agent.close)
        with unittest.mock.patch.dict(os.environ, {"ELASTIC_AGENT_SOCKET": agent.path}):
            client = connect(1, 0, on_leave)
        if client is not None:
            self.addCleanup(client.close)
        return agent, client

    def test_an_agent_of_another_version_says_so(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            _, client = self.connect(refuse="the helper speaks version 1, this agent version 2")
        self.assertIsNone(client)
        self.assertIn("this agent version 2", said.getvalue())

    def test_a_world_that_is_over_before_it_is_taken(self):
        asked = queue.Queue()
        agent, client = self.connect(lambda *_: asked.put(True))
        client.can_stay(True)
        agent.hears("can_stay")
        agent.send(leave=1)
        asked.get(timeout=60)
        agent.send(world={"ELASTIC_GENERATION": "2"})
        agent.send(leave=2)
        asked.get(timeout=60)
        self.assertEqual(client.next_world(60), {"ELASTIC_GENERATION": "2"})
        self.assertTrue(client.leaving.is_set())
        with self.assertRaises(Left):
            client.set("key", b"")

    def test_a_connection_that_was_shut_is_not_used_in_the_next_world(self):
        asked = threading.Event()
        agent, client = self.connect(lambda *_: asked.set())
        client.can_stay(True)
        agent.hears("can_stay")
        answered = client._take()  # by a thread that stands still until the next world is there
        agent.send(leave=1)
        asked.wait(60)
        agent.send(world={"ELASTIC_GENERATION": "2"})
        client.next_world(60)
        client._give_back(answered)
        client.set("key", b"value")
        self.assertEqual(client.get(["key"], 60), [b"value"])


if __name__ == "__main__":
    unittest.main()
