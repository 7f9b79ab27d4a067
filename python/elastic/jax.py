"""JAX over several processes, at any number of nodes.

    world = elastic.jax.initialize()
    saved = elastic.jax.load()                       # {"step": …, "params": …}, None: there is none
    ...
    stop = elastic.jax.should_stop()                 # once each step, on every rank
    if stop or step % 100 == 0:
        elastic.jax.save(step, params=params)

A save is a pickle of what rank 0 has, so it can be loaded at any number of nodes. Arrays that are
sharded over processes are refused: save these with orbax, and write the mark.
"""

from __future__ import annotations

import os
import pickle
import shutil
from typing import Any, Dict, Optional

import jax
import numpy
from jax.experimental import multihost_utils

from .environment import World, world
from .errors import ElasticError, LoadError, whole_number
from .saving import newest, path_of, put_mark, retain
from .stopping import stopper

_FILE = "state.pkl"


def initialize(**options: Any) -> World:
    """Call jax.distributed.initialize with the variables of the launcher; options go to it. Call it before
    any array is made."""
    w = world()
    if w.size > 1:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        listening = stopper()
        jax.distributed.initialize(address, num_processes=w.size, process_id=w.rank, **options)
        listening.take_back()  # JAX's handler only notes SIGTERM, so that a lost world would end after the grace
    return w


def should_stop() -> bool:
    """Whether to save and leave the loop now. It is True at the same step on all ranks, because they
    exchange a number in each call."""
    s = stopper()
    wish = s.asked()
    if world().size > 1:
        wish = bool(multihost_utils.process_allgather(numpy.asarray(wish)).any())
    s.agreed = s.agreed or wish
    if s.agreed:
        s.status()
    return s.agreed


def save(step: int, keep: int = 2, **values: Any) -> Optional[str]:
    """Save trees of arrays and plain values; only rank 0 writes. Returns the path, None on other ranks."""
    whole_number("step", step, 0)
    content = {name: jax.tree.map(lambda leaf, name=name: _here(name, leaf), tree) for name, tree in values.items()}
    if world().rank != 0:
        return None
    directory = _directory()
    path = path_of(directory, step)
    shutil.rmtree(path, ignore_errors=True)  # torn, or of steps that were given up
    os.makedirs(path)
    with open(os.path.join(path, _FILE), "wb") as file:
        pickle.dump({**content, "step": step}, file, protocol=pickle.HIGHEST_PROTOCOL)
        file.flush()
        os.fsync(file.fileno())
    put_mark(path, {"step": step})
    retain(directory, step, keep)
    return path


def load() -> Optional[Dict[str, Any]]:
    """The committed checkpoint, as it was given to save(), with its step; None: there is none. Arrays are
    numpy's."""
    path = world().resume_from
    if path is None and not world().managed:
        path = newest(_directory())
    if path is None:
        return None
    try:
        with open(os.path.join(path, _FILE), "rb") as file:
            content: Dict[str, Any] = pickle.load(file)
    except Exception as error:
        raise LoadError(f"{path} cannot be read: {error}") from error
    return content


def _here(name: str, leaf: Any) -> Any:
    """The value of a leaf, without its devices."""
    if not isinstance(leaf, jax.Array):
        return leaf
    if not leaf.is_fully_replicated:
        raise ElasticError(f"elastic.jax.save({name}=…): an array is sharded over devices: save it with orbax, or gather it")
    return numpy.asarray(leaf.addressable_data(0))


def _directory() -> str:
    return world().checkpoint_dir or "checkpoints"
