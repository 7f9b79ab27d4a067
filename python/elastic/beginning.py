"""How a world begins: with the process group, and with one state on all ranks."""

from __future__ import annotations

from typing import Any, List, Optional

from . import saving, sharing, voting
from .agent import Agent
from .environment import World, world
from .errors import ElasticError, LoadError, say
from .group import Group
from .state import State, same_terms

Place = Optional[List[int]]
"""Step and epoch of a rank's state; None: it has none."""


def begin(w: World, state: State, group: Group, agent: Agent) -> bool:
    """Open the process group, and give all ranks one state. False: every rank begins from scratch, and
    the state of this process is not the one that its script began with."""
    course = state._course
    mine = {"place": course.held(), "print": course.fingerprint(), "terms": state._terms()}
    words = group.open(w, mine)
    same_terms([word["terms"] for word in words])
    places, prints = [word["place"] for word in words], [word["print"] for word in words]
    if voting.behind(places, w.resume_step):
        places, prints = _load(w, state, group)
    giver = voting.source(places)
    takers = voting.takers(places, prints)
    if giver is not None and takers:
        if w.rank in takers and places[w.rank] == places[giver]:
            _say_that_it_differs(w, giver, course.step)
        content: Any = None
        if w.rank == giver:
            _give(state, group, agent, takers)
        elif group.gate is None:
            data = voting.broadcast(None, giver, group.device(), agent.received)
            content = voting.unpack(data) if w.rank in takers else None
        elif w.rank in takers:
            content = sharing.take(giver, group.device(), agent.received)
        else:
            sharing.watch(giver, group.device())
        group.check()
        if w.rank in takers:
            course.take(state, content)
    if giver is None and course.was_held():
        return False
    if giver is not None and list(course.place) != list(places[giver]):
        raise LoadError(f"rank {giver} said that its state is of step {places[giver][0]}, and it is of step {course.step}")
    course.hold()
    return True


def _say_that_it_differs(w: World, giver: int, step: int) -> None:
    say(
        f"the state of rank {w.rank} after step {step} differs from that of rank {giver}, and is replaced by it: "
        "processors that round differently, or a script that does not do the same on all ranks"
    )


def _load(w: World, state: State, group: Group) -> "tuple[List[Place], List[Optional[int]]]":
    """Load the checkpoint, because no rank has a state that is as new. Return places and fingerprints of all ranks."""
    course = state._course
    unreadable: Optional[LoadError] = None
    place = course.held()
    if w.resume_from is not None:
        try:
            content = saving.read(w.resume_from)
            if place is None or content["step"] > place[0]:
                course.take(state, content)
                place = course.place
        except LoadError as error:
            unreadable = error
    mine = {"place": place, "print": course.fingerprint_of(place), "unreadable": unreadable is not None}
    words = group.exchange(w, mine, "loaded")
    places = [word["place"] for word in words]
    if unreadable is not None and voting.source(places) is None:
        raise unreadable
    if w.resume_step and voting.behind(places, w.resume_step) and not any(word["unreadable"] for word in words):
        raise LoadError(f"the checkpoint of step {w.resume_step} is not here, and no rank has a state as new as that")
    return places, [word["print"] for word in words]


def _give(state: State, group: Group, agent: Agent, takers: List[int]) -> None:
    """Give the state of this rank to those that take it: with gloo to all."""
    content, rank = state._course.content(), world().rank
    try:
        data = voting.pack(content) if group.gate is None else b""
    except Exception as error:
        raise ElasticError(f"the state cannot be given to the ranks that have none: {error}") from error
    if group.gate is None:
        voting.broadcast(data, rank, group.device(), agent.received)
    else:
        sharing.give(content, rank, takers, group.device())
