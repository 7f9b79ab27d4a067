"""The process group of one world after the other, in one process.

Torch 2.15 can give a group other members (`reconfigure`). With older versions, and with backends
that cannot do this, the group is destroyed and a new one is made. In both cases the ranks find each
other through the store of the agent, which outlives every worker.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import itertools
import json
import os
from typing import Any, Dict, List, Optional, Set

from . import connections, device, torch_private
from .agent import Agent, Left
from .environment import World
from .subgroups import Subgroups

LIMIT = 60.0
"""Seconds that torch waits for a key of the store."""
MEET_LIMIT = 0.8
"""A fifth of the seconds that ranks may take to connect once all of them are present: gloo multiplies the
limit by five. Only this limit ends a rank's wait for one that has left."""


class Group:
    """The default process group, under an agent."""

    def __init__(self, agent: Agent, backend: str) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._agent = agent
        self._backend = backend
        self._store = agent_store(agent)  # torch calls its methods, and keeps no reference to it
        self._subgroups = Subgroups(dist)
        self._ports: Set[int] = set()
        self._peers: Set[int] = set()
        self._made: Set[int] = set()
        self._number: Optional[int] = None  # of this process, in its handle; unique in the world
        self.reconfigures = False
        self.gate: Optional[device.Gate] = None  # that each step passes, with NCCL
        if device.is_nccl(backend):
            self.gate = device.Gate(self._subgroups.of_all)
            # Otherwise the watchdog of NCCL ends the process before the agent reports a loss.
            os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
        self.meets = False  # it is connecting to the other ranks, within its limit

    def open(self, world: World, word: Dict[str, Any]) -> List[Dict[str, Any]]:
        """Make the group of a world, and return the words of all ranks. word is the word of this rank."""
        if self.gate is not None:
            self.gate.open()
        words = self.exchange(world, dict(word, number=self._number, can=torch_private.can_reconfigure(self._dist)), "word")
        can = self.gate is None and all(w["can"] for w in words)
        if self.reconfigures or can and self._can_reconfigure(world, words):
            self._meet(world)
        else:
            self._remake(world)
        return words

    def device(self) -> str:
        """The kind of device on which its collectives move data."""
        return "cuda" if self.gate is not None else "cpu"

    def leave(self) -> bool:
        """Leave all groups. True: the script still has a group of new_group, which it cannot use any more."""
        if self.gate is not None:
            self.gate.wait()
        kept = self._dist.is_initialized() and self._subgroups.end()
        if not self.reconfigures:
            self.close()
        return kept

    def close(self) -> None:
        """End the group for good."""
        if self._dist.is_initialized():
            with contextlib.suppress(Exception):  # a group whose members are gone need not end in order
                self._dist.destroy_process_group()

    def interrupt(self) -> None:
        """End the running collectives. The thread that reads the agent's messages calls it.

        Gloo ends a collective only when a connection to a member ends, so the connections of this
        process are shut. NCCL's groups are aborted."""
        if self.gate is not None:
            self.gate.abort()
        connections.shut(self._mine())

    def aborting(self) -> Optional[float]:
        """For how many seconds the groups of NCCL are being aborted; None: they are not."""
        return None if self.gate is None else self.gate.aborting()

    def check(self) -> None:
        """Raise where what the collectives until now have given may be wrong."""
        if self.gate is not None:
            self.gate.check()

    def quiet(self) -> bool:
        """Whether no data moves between the members."""
        return connections.quiet(self._mine())

    def _mine(self) -> connections.Mine:
        return connections.Mine(self._ports, self._peers, self._made)

    # Torch 2.15.

    def _can_reconfigure(self, world: World, words: List[Dict[str, Any]]) -> bool:
        """Make a group without members, if this torch and this backend support it."""
        number = free_number([w["number"] for w in words], world.rank)
        before = connections.listening()
        try:
            self.reconfigures = torch_private.begin_without_members(self._dist, self._backend, self._store, number)
        except Left:
            raise
        except Exception:
            self.reconfigures = False
        if self.reconfigures:
            self._number, self._ports = number, connections.listening() - before
            self._subgroups.begin()
        elif self._dist.is_initialized():
            self._dist.destroy_process_group()
        return self.reconfigures

    def _meet(self, world: World) -> None:
        mine = {"handle": torch_private.handle(self._dist), "ports": sorted(self._ports)}
        handles = self.exchange(world, mine, "handle")
        self._peers = {port for theirs in handles for port in theirs["ports"]} - self._ports
        limit = datetime.timedelta(seconds=MEET_LIMIT)
        self.meets = True
        try:
            torch_private.reconfigure(self._dist, world.generation, [h["handle"] for h in handles], limit)
        finally:
            self.meets = False

    # Other versions, and other backends.

    def _remake(self, world: World) -> None:
        more: Dict[str, Any] = {}
        if self.gate is not None:
            more = device.choose(world.local_rank)
            more["timeout"] = datetime.timedelta(seconds=self.gate.patience())
        before = connections.inodes()
        self._dist.init_process_group(
            self._backend,
            store=self._dist.PrefixStore(str(world.generation), self._store),
            rank=world.rank,
            world_size=world.size,
            **more,
        )
        self._made = connections.inodes() - before  # older gloo has no port that identifies them

    def exchange(self, world: World, word: Dict[str, Any], name: str) -> List[Dict[str, Any]]:
        """Give every rank the word of every rank."""
        self._agent.set(f"elastic/{name}/{world.rank}", json.dumps(word).encode())
        keys = [f"elastic/{name}/{rank}" for rank in range(world.size)]
        values = None
        while values is None:  # a rank that starts may take long; if one is lost the agent says so
            values = self._agent.get(keys, LIMIT)
        return [json.loads(value) for value in values]


def named(backend: Optional[str]) -> str:
    """The backend that torch takes."""
    import torch

    if backend is None and getattr(torch, "cuda", None) is not None and torch.cuda.is_available():
        return "cpu:gloo,cuda:nccl"
    return (backend or "gloo").lower()


def restarts(backend: str) -> Optional[str]:
    """Why workers with a backend are started again when the world changes; None: they stay."""
    import torch

    if all(part.rpartition(":")[2] == "gloo" for part in backend.split(",")) or (
        device.is_nccl(backend) and device.may_stay()
    ):
        lacks = torch_private.missing(torch.distributed)
        return lacks and f"this torch lacks {lacks}: this worker is started again when the world changes"
    kind = "NCCL" if device.is_nccl(backend) else "this backend"
    return (
        f"backend {backend!r}: {kind} was never seen to be right in place, on a GPU: "
        "this worker is started again when the world changes"
    )


def free_number(numbers: List[Optional[int]], rank: int) -> int:
    """Return a unique number for a process without a rank."""
    taken = {n for n in numbers if n is not None}
    free = (n for n in itertools.count() if n not in taken)
    ranks = [r for r, n in enumerate(numbers) if n is None]
    return list(itertools.islice(free, len(ranks)))[ranks.index(rank)]


def agent_store(agent: Agent) -> Any:
    """Return a Store of torch that uses the agent. The class is made here because the script imports torch."""
    import torch.distributed as dist

    clones: List[Any] = []

    class AgentStore(dist.Store):
        """The values of the generation at hand. All ranks of it have the same ones."""

        def __init__(self) -> None:
            super().__init__()
            self.limit = datetime.timedelta(seconds=LIMIT)

        def set(self, key: str, value: Any) -> None:
            agent.set(key, _bytes(value))

        def get(self, key: str) -> bytes:
            return self._wait([key], self.limit)[0]

        def multi_get(self, keys: List[str]) -> List[bytes]:
            return self._wait(keys, self.limit)

        def multi_set(self, keys: List[str], values: List[Any]) -> None:
            for key, value in zip(keys, values):
                self.set(key, value)

        def wait(self, keys: List[str], timeout: Optional[datetime.timedelta] = None) -> None:
            self._wait(keys, self.limit)  # torch gives the limit of one connection; the agent ends the wait

        def _wait(self, keys: List[str], limit: datetime.timedelta) -> List[bytes]:
            values = agent.get(list(keys), limit.total_seconds())
            if values is None:
                raise RuntimeError(f"wait timeout: no rank has set {', '.join(keys)}")
            return values

        def check(self, keys: List[str]) -> bool:
            return bool(agent.ask("check", list(keys))["found"])

        def add(self, key: str, value: int) -> int:
            return int(base64.b64decode(agent.ask("add", [key], delta=value)["values"][0]))

        def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
            values = [base64.b64encode(_bytes(v)).decode() for v in (expected, desired)]
            return base64.b64decode(agent.ask("compare", [key], values=values)["values"][0])

        def delete_key(self, key: str) -> bool:
            return bool(agent.ask("delete", [key])["found"])

        def set_timeout(self, timeout: datetime.timedelta) -> None:
            self.limit = timeout

        def has_extended_api(self) -> bool:
            return True

        def clone(self) -> Any:
            clones.append(AgentStore())
            return clones[-1]

    return AgentStore()


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def open_alone(world: World, backend: Optional[str]) -> None:
    """Make the process group without an agent: from torchrun's variables, or of this process alone."""
    import torch.distributed as dist

    if world.size == 1 and "MASTER_ADDR" not in os.environ:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group(backend)


