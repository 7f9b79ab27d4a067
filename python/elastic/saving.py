"""Checkpoints on disk: a directory step-<n> that is whole or does not exist.

    step-120/
      state.pt, state.pdparams or state.pkl     by the framework of what is in it
      .elastic-commit                           written last: {"step": 120, "samples": 30720, …}

A process that is killed while it writes leaves a directory without the last file, which
neither the launcher nor load() takes for a checkpoint.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from typing import Any, Callable, Dict, List, Optional

from . import marking
from .errors import LoadError
from .marking import MARK as MARK
from .marking import sync as sync


def path_of(directory: str, step: int) -> str:
    return os.path.join(directory, f"step-{step}")


def write(directory: str, content: Dict[str, Any], mark: Dict[str, Any], is_wanted: Callable[[], bool]) -> Optional[str]:
    """Write a checkpoint and return its path. mark goes into the manifest of the launcher. A save that is not wanted
    any more when all of it is written is removed again."""
    path = path_of(directory, mark["step"])
    shutil.rmtree(path, ignore_errors=True)  # torn, or of steps that were given up
    os.makedirs(path)
    framework = _framework(content)
    _dump(framework, content, os.path.join(path, _FILES[framework]))
    sync(path)
    sync(directory)
    if not is_wanted():
        shutil.rmtree(path, ignore_errors=True)
        return None
    put_mark(path, mark)
    return path


def put_mark(path: str, mark: Dict[str, Any]) -> None:
    """Say that all of a directory is written."""
    marking.write(os.path.join(path, MARK), mark)


def read(path: str) -> Dict[str, Any]:
    """Read the checkpoint at a path."""
    for framework, name in _FILES.items():
        file = os.path.join(path, name)
        if os.path.exists(file):
            content: Dict[str, Any] = _load(framework, file)
            return content
    raise LoadError(f"{path}: no checkpoint of elastic.State: none of {', '.join(_FILES.values())} is there")


def newest(directory: str) -> Optional[str]:
    """The newest whole checkpoint in a directory."""
    return next((path_of(directory, n) for n in steps(directory) if is_whole(directory, n)), None)


def steps(directory: str) -> List[int]:
    """The steps in a directory, whole or torn, newest first."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    numbers = [name[5:] for name in names if name.startswith("step-")]
    return sorted((int(n) for n in numbers if n.isdigit() and str(int(n)) == n), reverse=True)


def is_whole(directory: str, step: int) -> bool:
    return os.path.exists(os.path.join(path_of(directory, step), MARK))


def retain(directory: str, step: int, keep: int) -> None:
    """Remove checkpoints up to a step that are torn or beyond the newest `keep`. Later ones are of
    steps that were given up; the launcher moves them away."""
    whole = 0
    for number in steps(directory):
        if number > step:
            continue
        if is_whole(directory, number) and whole < keep:
            whole += 1
        else:
            shutil.rmtree(path_of(directory, number), ignore_errors=True)


# By framework: each has values that only it can write.

_FILES = {"torch": "state.pt", "paddle": "state.pdparams", "": "state.pkl"}


def is_copied(content: Dict[str, Any]) -> bool:
    """Whether another thread may write a copy. Paddle was not tried."""
    return _framework(content) != "paddle"


def _framework(content: Any) -> str:
    """The first framework whose values are in the content."""
    if isinstance(content, dict):
        return next((f for f in map(_framework, content.values()) if f), "")
    if isinstance(content, (list, tuple)):
        return next((f for f in map(_framework, content) if f), "")
    root = type(content).__module__.partition(".")[0]
    return root if root in _FILES and root in sys.modules else ""


def _dump(framework: str, content: Any, path: str) -> None:
    if framework:
        try:
            sys.modules[framework].save(content, path)
        except RuntimeError as error:  # what torch says of a full disk
            raise OSError(f"{path}: {error}") from error
    else:
        with open(path, "wb") as file:
            pickle.dump(content, file, protocol=pickle.HIGHEST_PROTOCOL)
    sync(path)


def _load(framework: str, path: str) -> Any:
    try:
        if framework == "torch":
            import torch

            return torch.load(path, map_location="cpu", weights_only=False)
        if framework == "paddle":
            import paddle

            return paddle.load(path)
        with open(path, "rb") as file:
            return pickle.load(file)
    except Exception as error:
        raise LoadError(f"{path} cannot be read: {error}") from error
