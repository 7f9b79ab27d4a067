"""A sharded state (FSDP2, tensor parallelism), saved by torch.distributed.checkpoint.

    step = elastic.dcp.load(model=model, optimizer=optimizer) or 0
    ...
    elastic.dcp.save(step, model=model, optimizer=optimizer)

Each rank writes its shards below $ELASTIC_CHECKPOINT_DIR, on the disk of its own node, and any other number
of ranks can load them: run with --save-from=all. All ranks call both, and must be in a process group.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, Optional

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful

from .environment import world
from .errors import ElasticError, LoadError, whole_number
from .saving import newest, path_of, put_mark, retain


class _Trained(Stateful):
    """A model and its optimizer: names of parameters in place of the numbers that optimizers use."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self._model, self._optimizer = model, optimizer

    def state_dict(self) -> Dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        set_state_dict(
            self._model, self._optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )


def save(step: int, *, model: Any, optimizer: Any = (), keep: int = 2, **values: Any) -> str:
    """Save, and mark the save when all ranks have written. values are plain ones or have a state_dict.
    Returns the path."""
    directory = _directory()
    path = path_of(directory, whole_number("step", step, 0))
    if world().local_rank == 0:
        shutil.rmtree(path, ignore_errors=True)  # of steps that were given up
    _wait()
    dcp.save({**values, "trained": _Trained(model, optimizer), "step": torch.tensor(step)}, checkpoint_id=path)
    _wait()
    if world().local_rank == 0:
        put_mark(path, {"step": step})
        retain(directory, step, keep)
    return path


def load(*, model: Any, optimizer: Any = (), **values: Any) -> Optional[int]:
    """Go on from the committed checkpoint: returns its step, None if there is none. A value without a
    load_state_dict cannot be given back: keep it in an object that has one."""
    for name, value in values.items():
        if not hasattr(value, "load_state_dict"):
            raise ElasticError(f"elastic.dcp.load({name}=…): it has no load_state_dict, so it cannot be given back")
    path = world().resume_from
    if path is None and not world().managed:
        path = newest(_directory())
    if path is None:
        return None
    state = {**values, "trained": _Trained(model, optimizer), "step": torch.tensor(0)}
    try:
        dcp.load(state, checkpoint_id=path)
    except Exception as error:
        raise LoadError(f"{path} cannot be read: {error}") from error
    return int(state["step"])


def _directory() -> str:
    return os.path.abspath(world().checkpoint_dir or "checkpoints")


def _wait() -> None:
    if not dist.is_initialized():
        raise ElasticError("elastic.dcp needs a process group: torch.distributed.init_process_group() first")
    dist.barrier()
