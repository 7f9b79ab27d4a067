"""The mark of a save: what tells the launcher that a file or a directory is complete.

    torch.save(state, f"{directory}/model.pt")
    elastic.saved(f"{directory}/model.pt", step=step)
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Optional

from .errors import ElasticError

MARK = ".elastic-commit"
_POSITION = ("samples", "epoch", "consumed", "seed", "dataset_size")


def saved(path: "str | os.PathLike[str]", step: Optional[int] = None, **position: int) -> None:
    """Say that the file or directory at path is one complete save. Call it after the last byte, on the
    rank that saved. step is that of the optimizer. position is where training is in its data: samples,
    epoch, consumed (samples of the epoch), seed, dataset_size. Without an agent it does the same."""
    content: Dict[str, int] = {} if step is None else {"step": step}
    content.update(position)
    for name, value in content.items():
        if name != "step" and name not in _POSITION:
            raise ElasticError(f"saved() has no {name}: step, {', '.join(_POSITION)}")
        if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 0:
            raise ElasticError(f"{name}={value!r}: a whole number, at least 0")
    place = os.fspath(path).rstrip("/")
    if not os.path.exists(place):
        raise ElasticError(f"{place} is not there: call saved() after the save was written")
    if os.path.isdir(place):
        for directory, _, names in os.walk(place):
            for name in names:
                if os.path.isfile(os.path.join(directory, name)):
                    sync(os.path.join(directory, name))
            sync(directory)
        write(os.path.join(place, MARK), content)
    else:
        sync(place)
        write(place + MARK, content)


def write(mark: str, content: Dict[str, Any]) -> None:
    """Write a mark: it is there whole, or not at all, also after a crash."""
    temporary = mark + ".tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump({name: int(value) if hasattr(value, "__index__") else value
                   for name, value in content.items()}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, mark)
    sync(os.path.dirname(mark) or ".")


def sync(path: str) -> None:
    """Sync a file or a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
