"""The gate of NCCL, with a backend that ends an aborted collective as if it had succeeded, as NCCL does."""

import contextlib
import io
import os
import queue
import tempfile
import threading
import types
import unittest
import unittest.mock
import warnings

import torch
import torch.distributed as dist

from elastic import beginning, device, environment, group, leaving, stopping, training
from elastic.environment import World
from elastic.state import State

from ..test_training import PlayedAgent, until


class Done:
    def wait(self, *_):
        return True


class Aborting(dist.ProcessGroup):
    """Of a rank whose only peer has the same gradients. Where it hangs, only abort() ends a collective, and what was to be
    reduced is as before."""

    hangs = threading.Event()
    blocked = threading.Event()
    returns = threading.Event()  # an abort does, after it has ended the collective
    error = "SUCCESS"
    aborts = 0

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.aborted = threading.Event()

    def allreduce(self, tensors, _=None):
        if Aborting.hangs.is_set():
            Aborting.blocked.set()
            self.aborted.wait(20)
            return Done()
        for tensor in tensors:
            tensor *= 2
        return Done()

    def abort(self):
        Aborting.aborts += 1
        self.aborted.set()
        Aborting.returns.wait(20)

    def get_error(self):
        return Aborting.error

    def getBackendName(self):
        return "playednccl"


with warnings.catch_warnings():  # newer torch wants to be told that it is of processors
    warnings.simplefilter("ignore")
    dist.Backend.register_backend("playednccl", lambda store, rank, size, limit: Aborting(rank, size))


class GateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.agent = PlayedAgent(folder.name)
        self.addCleanup(self.agent.close)
        Aborting.hangs.clear()
        Aborting.blocked.clear()
        Aborting.returns.set()
        Aborting.error, Aborting.aborts = "SUCCESS", 0
        for patch in (
            unittest.mock.patch.dict(
                os.environ,
                {"ELASTIC_AGENT_SOCKET": self.agent.path, "ELASTIC_GENERATION": "1", device.SWITCH: device.UNMEASURED},
            ),
            unittest.mock.patch.object(dist.ProcessGroup, "abort", None, create=True),
            unittest.mock.patch.object(group, "agent_store", lambda agent: dist.HashStore()),
            unittest.mock.patch.object(environment, "_current", World()),
            unittest.mock.patch.object(stopping, "_stopper", stopping.Stopper(None)),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def start(self, steps):
        """Train in a thread, and return where its outcome comes out."""
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 1, bias=False).double()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        self.state = State(model=net, optimizer=optimizer, save_every=None)
        outcome = queue.Queue()

        @training.train(self.state, backend="playednccl")
        def loop(world):
            while self.state.step < steps:
                if self.state.step == 2 and world.generation == 1:
                    self.at_step_2()
                optimizer.zero_grad()
                net(torch.full((1, 4), 1.0 + self.state.step, dtype=torch.double)).sum().backward()
                dist.all_reduce(net.weight.grad)
                optimizer.step()
                self.state.end_step()
            return net.weight.detach().clone()

        def body():
            try:
                outcome.put(loop())
            except BaseException as error:
                outcome.put(error)
            finally:
                if dist.is_initialized():
                    dist.destroy_process_group()

        threading.Thread(target=body, daemon=True).start()
        return outcome

    def at_step_2(self):
        """Nothing, in a world that does not change."""

    def change_world(self):
        self.agent.send(leave=1)
        left = self.agent.hears("left")
        Aborting.hangs.clear()
        self.agent.send(world={"ELASTIC_GENERATION": "2"})
        return left

    def test_a_step_with_an_aborted_collective_does_not_count(self):
        undisturbed = self.start(5).get(timeout=20)
        self.at_step_2 = Aborting.hangs.set
        outcome = self.start(5)
        self.assertTrue(Aborting.blocked.wait(20))
        left = self.change_world()
        self.assertTrue(torch.equal(outcome.get(timeout=20), undisturbed))
        self.assertEqual(left, {"generation": 1, "step": 2})
        self.assertEqual(Aborting.aborts, 1)

    def test_an_abort_that_does_not_return_has_the_worker_started_again(self):
        ended, said = queue.Queue(), io.StringIO()

        def exit_now(status):
            ended.put(status)
            Aborting.returns.set()
            raise SystemExit

        self.at_step_2 = Aborting.hangs.set
        Aborting.returns.clear()
        limit = unittest.mock.patch.object(device, "ABORT_LIMIT", 0.2)
        with limit, unittest.mock.patch("os._exit", exit_now), contextlib.redirect_stderr(said):
            outcome = self.start(5)
            self.assertTrue(self.agent.hears("can_stay"))
            self.assertTrue(Aborting.blocked.wait(20))
            self.agent.send(leave=1)
            self.assertFalse(self.agent.hears("can_stay"))
            stopping.stopper()._asked = True
            self.assertEqual(ended.get(timeout=20), 143)
            Aborting.hangs.clear()
            self.agent.send(world={"ELASTIC_GENERATION": "2"})
            outcome.get(timeout=20)
        self.assertIn("the abort of a process group has not returned in 0.2 s: this worker is started again", said.getvalue())

    def test_no_group_is_destroyed_while_it_is_aborted(self):
        self.at_step_2 = Aborting.hangs.set
        Aborting.returns.clear()
        waits = threading.Event()
        wait = device.Gate.wait

        def noted(gate):
            waits.set()
            wait(gate)

        with unittest.mock.patch.object(device.Gate, "wait", noted):
            outcome = self.start(5)
            self.assertTrue(Aborting.blocked.wait(20))
            self.agent.send(leave=1)
            self.assertTrue(waits.wait(20))
            self.assertTrue(dist.is_initialized())
            Aborting.returns.set()
            self.change_world()
            outcome.get(timeout=20)

    def test_a_step_does_not_count_whose_group_has_failed(self):
        """The error of a group is seen before the agent has lost a node."""
        undisturbed = self.start(5).get(timeout=20)
        failed = threading.Event()

        def fail():
            Aborting.error = "REMOTE_ERROR"
            failed.set()

        self.at_step_2 = fail
        outcome = self.start(5)
        self.assertTrue(failed.wait(20))
        until(lambda: self.state.step == 3)
        Aborting.error = "SUCCESS"
        self.assertEqual(self.change_world(), {"generation": 1, "step": 2})
        self.assertTrue(torch.equal(outcome.get(timeout=20), undisturbed))

    def test_what_holds_on_to_the_groups_of_a_world(self):
        self.assertIsNone(device.outlives())
        memory = types.SimpleNamespace(_group_name_to_workspace_tensor={"0": object()})
        with unittest.mock.patch.dict("sys.modules", {"torch.distributed._symmetric_memory": memory}):
            self.assertEqual(device.outlives(), "symmetric memory")
        kind = type("CUDAGraph", (), {})
        with unittest.mock.patch.object(torch.cuda, "CUDAGraph", kind, create=True):
            one = kind()
            self.assertEqual(device.outlives(), "a CUDA graph")
            del one

    def test_a_state_of_another_rank_is_not_taken_from_an_aborted_broadcast(self):
        words = [{"place": [4, 0], "print": 1, "terms": {}}, {"place": None, "print": None, "terms": {}}]
        world = types.SimpleNamespace(rank=1, resume_step=None)
        course = unittest.mock.Mock(held=lambda: None, fingerprint=lambda: None, was_held=lambda: False)
        state = types.SimpleNamespace(_course=course, _terms=dict)
        failed = unittest.mock.Mock(side_effect=leaving.WorldChanged)
        played = types.SimpleNamespace(open=lambda w, word: words, device=lambda: "cpu", gate=None, check=failed)
        with unittest.mock.patch.object(beginning.voting, "broadcast", lambda *_: beginning.voting.pack("zeros")):
            with self.assertRaises(leaving.WorldChanged):
                beginning.begin(world, state, played, types.SimpleNamespace(received=None))
        course.take.assert_not_called()

    def test_the_gate(self):
        group = types.SimpleNamespace(abort=unittest.mock.Mock(side_effect=RuntimeError("it has ended")))
        gate = device.Gate(lambda: [group])
        self.addCleanup(gate.close)
        gate.open()
        gate.check()
        gate.abort()
        gate.abort()
        gate.wait()
        self.assertIsNone(gate.aborting())
        group.abort.assert_called_once()
        with self.assertRaises(leaving.WorldChanged):
            gate.check()
        gate.open()
        gate.check()

    def test_groups_are_aborted_together(self):
        """The abort of one returns when that of the other has begun."""
        both = threading.Barrier(2)
        gate = device.Gate(lambda: [types.SimpleNamespace(abort=lambda: both.wait(10)) for _ in range(2)])
        gate.open()
        gate.abort()
        gate.wait()
        self.assertFalse(both.broken)

    def blocked_gate(self, **group):
        """A gate whose GPU waits until the group is aborted, with no patience."""
        freed = threading.Event()
        group = types.SimpleNamespace(**{"abort": freed.set, **group})
        for name, value in (
            ("finish", lambda: freed.wait(20)),
            ("LOOK", 0.01),
            ("ABORT_LIMIT", 0.1),
            ("look_after", lambda usual: 0.0),
        ):
            patch = unittest.mock.patch.object(device, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        gate = device.Gate(lambda: [group])
        self.addCleanup(gate.close)
        return gate

    def test_a_step_that_waits_for_a_group_that_has_failed_is_ended(self):
        gate = self.blocked_gate(get_error=lambda: "REMOTE_ERROR")
        gate.open()
        with self.assertRaisesRegex(RuntimeError, r"NCCL: a process group has failed \(REMOTE_ERROR\)"):
            gate.check()

    def test_a_step_that_waits_for_too_long_is_ended(self):
        gate = self.blocked_gate()
        with unittest.mock.patch.object(device, "end_after", lambda usual: 0.0):
            gate.open()
            with self.assertRaisesRegex(RuntimeError, "NCCL: no collective has ended for") as raised:
                gate.check()
        self.assertTrue(leaving.is_of_communication(raised.exception))

    def test_a_rank_that_computes_for_long_goes_on(self):
        gate = self.blocked_gate()
        gate.open()
        self.assertIsNone(gate.overdue(1e12))

    def test_a_step_whose_abort_does_not_return_ends_the_worker(self):
        ended, never, said = queue.Queue(), threading.Event(), io.StringIO()

        def exit_now(status):
            ended.put(status)
            never.set()
            raise SystemExit

        gate = self.blocked_gate(get_error=lambda: "REMOTE_ERROR", abort=lambda: never.wait(20))
        with unittest.mock.patch("os._exit", exit_now), contextlib.redirect_stderr(said):
            gate.open()
            self.assertEqual(ended.get(timeout=20), 1)
        self.assertIn("and the abort has not returned in 0.1 s: this worker ends", said.getvalue())

    def test_the_group_gets_the_patience_of_the_rank(self):
        with unittest.mock.patch.object(dist, "init_process_group") as made:
            one = group.Group(unittest.mock.Mock(), "playednccl")
            one._remake(World())
        self.assertEqual(made.call_args.kwargs["timeout"].total_seconds(), 1800.0)

    def test_the_default_is_to_start_again(self):
        del os.environ[device.SWITCH]
        self.assertFalse(device.may_stay())
