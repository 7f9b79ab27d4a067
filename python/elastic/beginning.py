"""How a world begins: with the process group, and with one state on all ranks."""

from __future__ import annotations

from typing import List, Optional

from . import saving, voting
from .agent import Agent
from .environment import World
from .errors import ElasticError, LoadError
from .group import Group
from .state import State, same_terms


def begin(w: World, state: State, group: Group, agent: Agent) -> bool:
    """Open the process group, and give all ranks one state. False: every rank begins from scratch, and
    the state of this process is not the one that its script began with."""
    words = group.open(w, {"step": state.held_step(), "terms": state.terms()})
    same_terms([word["terms"] for word in words])
    steps = [word["step"] for word in words]
    if voting.behind(steps, w.resume_step):
        steps = _load(w, state, group)
    giver = voting.source(steps)
    takers = voting.takers(steps)
    if giver is not None and takers:
        data = _packed(state) if w.rank == giver else None
        data = voting.broadcast(data, giver, group.device(), agent.received)
        if w.rank in takers:
            state.take(voting.unpack(data))
    if giver is None and state.was_held():
        return False
    if giver is not None and state.step != steps[giver]:
        raise LoadError(f"rank {giver} said that its state is of step {steps[giver]}, and it is of step {state.step}")
    state.hold()
    return True


def _load(w: World, state: State, group: Group) -> List[Optional[int]]:
    """Load the checkpoint, because no rank has a state that is as new. Return the steps of all ranks."""
    unreadable: Optional[LoadError] = None
    held = state.held_step()
    if w.resume_from is not None:
        try:
            content = saving.read(w.resume_from)
            if held is None or content["step"] > held:
                state.take(content)
                held = state.step
        except LoadError as error:
            unreadable = error
    words = group.exchange(w, {"step": held, "unreadable": unreadable is not None}, "loaded")
    steps = [word["step"] for word in words]
    if unreadable is not None and voting.source(steps) is None:
        raise unreadable
    if w.resume_step and voting.behind(steps, w.resume_step) and not any(word["unreadable"] for word in words):
        raise LoadError(f"the checkpoint of step {w.resume_step} is not here, and no rank has a state as new as that")
    return steps


def _packed(state: State) -> bytes:
    try:
        return voting.pack(state.content())
    except Exception as error:
        raise ElasticError(f"the state cannot be given to the ranks that have none: {error}") from error
