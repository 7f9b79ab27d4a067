"""A training function that is called once for each world, in one process.

    @elastic.train(state, backend="gloo")
    def loop(world):
        ddp = torch.nn.parallel.DistributedDataParallel(net)
        for indices in state.sampler:
            ...
            state.end_step(loss=loss.item())

    loop()

When the world changes the function is left, also out of a collective that is blocked, and called
again with the process group of the next world and the newest state that a rank has.
"""

from __future__ import annotations

import functools
import gc
import os
import threading
import time
import traceback
from typing import Any, Callable, NoReturn, Optional

from . import device, environment, rates, stopping, wrappers
from .agent import Agent, Left, connect
from .beginning import begin
from .blocked import Watch
from .environment import World, world
from .errors import ElasticError, say
from .group import Group, named, open_alone, restarts
from .leaving import Exit, WorldChanged, is_of_communication
from .state import State
from .stopping import STOPPED, Stopped, stopper

WORD_LIMIT = 30.0
"""Seconds to wait for the agent after a collective failed: it takes some seconds to decide that a silent
node is lost. If the agent says nothing, the error is the script's."""
FOLLOWS = 2.0
"""Seconds to wait for it after any other error."""
AGAIN = 0.02
"""Seconds between two attempts to end the collectives of a generation that is left."""
BUSY_LIMIT = 0.5
"""Seconds for which ranks may go on sending in a generation that is left, to finish their step."""


def train(state: State, backend: Optional[str] = "gloo") -> Callable[[Callable[[World], Any]], Callable[[], Any]]:
    """Decorate a function that is called for each world, on every rank, with the process group
    ready and the state the same on all ranks. Its result in the last world is returned.

    With another backend than gloo, workers are started again when the world changes.

        @elastic.train(state)
        def loop(world):
            ddp = torch.nn.parallel.DistributedDataParallel(net)
            for epoch in state.sampler.epochs(10):
                for x, y in state.steps(loader):
                    ...
                    state.end_step(loss=loss.item())

        loop()
    """

    def decorate(function: Callable[[World], Any]) -> Callable[[], Any]:
        @functools.wraps(function)
        def run() -> Any:
            return Training(state, backend, function).run()

        return run

    return decorate


class Training:
    """One call of the decorated function."""

    def __init__(self, state: State, backend: Optional[str], function: Callable[[World], Any]) -> None:
        self._state = state
        self._backend = backend
        self._function = function
        self._lock = threading.Lock()
        self._left = 0  # the newest generation that this rank has left
        self._thread = threading.get_ident()
        self._exit = Exit(state)
        self._returned = threading.Event()  # run() is at its end: nothing is interrupted any more
        self._agent: Optional[Agent] = None
        self._group: Optional[Group] = None
        self._looked = 0  # the generation in which the wrappers of the script were looked at

    def run(self) -> Any:
        import torch.distributed as dist

        w = world()
        if dist.is_initialized():
            raise ElasticError(
                "there is a process group already: the training function makes that of each world, once in a process; "
                "do not call init_process_group before it"
            )
        backend = named(self._backend)
        why = restarts(backend)
        if why is not None and "ELASTIC_AGENT_SOCKET" in os.environ:
            say(why)
        elif "ELASTIC_AGENT_SOCKET" in os.environ:
            self._agent = connect(w.generation, w.local_rank, self._interrupt)
        if self._agent is None:
            open_alone(w, self._backend)
            self._state.load()
            result = self._function(w)
            self._state._course.returns()
            return result
        self._group = Group(self._agent, backend)
        self._state._course.follow(self._check)
        self._state._course.gate = self._group.check
        rates.freeze()  # these objects stay; scanning them would be the longest part of a change
        self._agent.can_stay(True)
        try:
            if os.environ.pop("ELASTIC_WAITS", ""):  # its variables until here are of a world that it might be in
                self._agent.left(None)
                w = self._next()
            return self._worlds(w)
        finally:
            with self._lock:
                self._returned.set()
                self._exit.has_left()
            self._state._course.follow(None)
            self._state._course.gate = None
            if self._group.gate is not None:
                self._group.gate.close()
            self._agent.can_stay(False)
            self._agent.close()
            rates.thaw()

    def _worlds(self, w: World) -> Any:
        """Train in one world after the other, until all ranks of one have finished."""
        while True:
            done, result = self._one(w)
            if done:
                return result
            w = self._next()

    def _one(self, w: World) -> "tuple[bool, Any]":
        """Train in one world. False: it is over, and this rank has left it."""
        assert self._agent is not None and self._group is not None
        try:
            self._begin(w)
            result = self._function(w)
            self._state._course.returns()
            self._all_through(w)
            return True, result
        except (WorldChanged, Left):
            pass
        except Exception as error:
            if not self._is_over(error):
                raise
            traceback.clear_frames(error.__traceback__)
        self._leave()
        return False, None

    def _begin(self, w: World) -> None:
        """Open the process group, and get the state."""
        assert self._agent is not None and self._group is not None
        if not begin(w, self._state, self._group, self._agent):
            self._begin_anew()

    def _all_through(self, w: World) -> None:
        """Wait until the function has returned on every rank: a rank whose last step was interrupted
        needs the others once more. The keys belong to this world. The store of the next one is empty."""
        assert self._agent is not None
        keys = [f"elastic/through/{rank}" for rank in range(w.size)]
        self._agent.set(keys[w.rank], b"")
        while self._agent.get(keys, WORD_LIMIT) is None:
            if stopper().asked():
                self._stop()

    # The end of a world.

    def _check(self) -> None:
        """Called between two steps."""
        assert self._agent is not None
        if self._looked < self._agent.generation:
            self._look()
        if stopper().asked():
            self._stop()
        if self._agent.leaving.is_set():
            self._exit.leave()

    def _look(self) -> None:
        """Report once if the state is sharded. A lost rank would take its part along, so this worker does
        not stay."""
        assert self._agent is not None
        self._looked = self._agent.generation
        kind = self._state._course.newly_sharded()
        if kind is not None:
            self._cannot_stay(
                f"the state is sharded ({kind}): workers are started again when the world changes, and State "
                "saves none of it; save with torch.distributed.checkpoint and --save-from=all"
            )
        kept = device.outlives() if device.is_nccl(named(self._backend)) else None
        if kept is not None:
            self._cannot_stay(f"{kept} holds on to the groups of this world: this worker is started again when it changes")

    def _cannot_stay(self, why: str) -> None:
        """Tell the agent to end this process, and start it again, when the world changes."""
        assert self._agent is not None
        say(why)
        self._agent.can_stay(False)

    def _is_over(self, error: BaseException) -> bool:
        """Whether an error was caused by the end of the world. The agent reports that a moment later."""
        assert self._agent is not None
        if not is_of_communication(error):  # it may follow from one that the script has caught
            return self._agent.leaving.wait(FOLLOWS)
        limit = time.monotonic() + WORD_LIMIT
        while not self._agent.leaving.wait(AGAIN):
            if stopper().asked():
                self._stop()
            if self._agent.gone.is_set() or time.monotonic() > limit:
                return False
        return True

    def _interrupt(self, generation: int) -> None:
        """Interrupt the function from a new thread, so that this one can go on reading the agent's messages."""
        threading.Thread(target=self._interrupting, args=(generation,), name="elastic-leave", daemon=True).start()

    def _interrupting(self, generation: int) -> None:
        """End the running collectives again and again, because a connection may be made at any moment.
        Connections of the next generation are left alone: this rank may have left by itself before this
        thread runs."""
        limit = time.monotonic() + BUSY_LIMIT
        watch = Watch(self._thread)
        while not self._returned.is_set():
            with self._lock:
                if self._left >= generation or self._returned.is_set():
                    return
                group = self._group
                late = time.monotonic() > limit
                if group is not None and (late or group.quiet()):
                    group.interrupt()
                if late:
                    self._exit.insist()
                caught = self._exit.is_caught()
            if caught:
                self._give_up("the script catches WorldChanged (BaseException); let it through")
            aborting = None if group is None else group.aborting()
            if aborting is not None:
                watch = Watch(self._thread)  # a collective ends with its abort
                if aborting > device.ABORT_LIMIT:
                    self._give_up(f"the abort of a process group has not returned in {device.ABORT_LIMIT:g} s")
            if watch.hangs() and group is not None and not group.meets:
                self._give_up("a collective does not end")
            self._returned.wait(AGAIN)

    def _give_up(self, why: str) -> None:
        """End this process, so that it is started again. Nothing else gets it out of its world."""
        assert self._agent is not None
        self._cannot_stay(f"{why}: this worker is started again")
        while not stopper().asked() and not self._agent.gone.is_set():
            time.sleep(AGAIN)  # SIGTERM without a wish to save ends it here
        os._exit(STOPPED)

    def _has_left(self) -> None:
        assert self._agent is not None
        with self._lock:
            self._left = self._agent.generation
            self._exit.has_left()

    def _leave(self) -> None:
        assert self._agent is not None and self._group is not None
        while not self._agent.leaving.wait(AGAIN):
            if self._agent.gone.is_set():
                raise ElasticError("the agent of this node has ended")
        self._group.interrupt()
        gc.collect()  # a live DistributedDataParallel of the old group reacts to gradients
        if not wrappers.disarm(self._agent.generation):
            self._cannot_stay("this torch has another DistributedDataParallel than is known, so this worker is started again")
        self._state._course.go_back(self._state)
        self._look()
        if self._group.leave():  # waits for other collectives, which _interrupting goes on to end
            self._cannot_stay("a group of new_group is kept, so this worker is started again: make it in the training function")
        self._has_left()
        held = self._state._course.held()
        self._agent.left(None if held is None else held[0])

    def _next(self) -> World:
        """Wait for the next world."""
        assert self._agent is not None
        while True:
            variables = self._agent.next_world(AGAIN)
            if variables is not None:
                os.environ.update(variables)
                return environment.renew()
            if stopper().asked():
                self._stop()
            if self._agent.gone.is_set():
                raise ElasticError("the agent of this node has ended")

    def _begin_anew(self) -> NoReturn:
        """End this process, so that it is started again: all ranks begin from scratch, and its model is trained."""
        say("no rank has a whole state, and there is no checkpoint: training begins anew")
        self._end(stopping.AGAIN)

    def _stop(self) -> NoReturn:
        """Save and end, as asked. No vote is needed: rank 0 saves the state of its last boundary."""
        course = self._state._course
        course.go_back(self._state)
        if course.held() is not None:
            course.save_or_say()
        self._end(STOPPED)

    def _end(self, status: int) -> NoReturn:
        assert self._agent is not None and self._group is not None
        self._interrupt(self._agent.generation)  # otherwise this process would wait for ranks in a collective
        self._group.close()
        self._has_left()
        raise Stopped(status)
