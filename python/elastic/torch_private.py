"""All that the helper uses of torch and that torch does not document, with the versions in which it was seen.

No other file uses a private name of torch (test_torch_private). missing() looks whether this torch has what is
needed to go on in another world in the same process; where it has not, its workers are started again.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
from typing import Any, List, Optional

# Torch 2.15: a group gets other members. An older torch makes a new group.
RECONFIGURE = ("_reconfigure", "_supports_reconfigure", "_get_reconfigure_handle")


def missing(dist: Any) -> Optional[str]:
    """What this torch lacks; None: nothing. Torch 1.13 to 2.15 have all of it."""
    c10d = getattr(dist, "distributed_c10d", None)
    if not hasattr(c10d, "_get_default_group"):
        return "distributed_c10d._get_default_group"
    if not hasattr(c10d, "_pg_map") and not hasattr(getattr(c10d, "_world", None), "pg_map"):
        return "distributed_c10d._world.pg_map"
    return None if _calls_a_store(dist) else "a Store of Python"


def _calls_a_store(dist: Any) -> bool:
    """Whether torch calls the methods of a store that is written in Python."""
    heard = []

    class Probe(dist.Store):
        def set(self, key: str, value: Any) -> None:
            heard.append(key)

    with contextlib.suppress(Exception):
        probe = Probe()
        dist.PrefixStore("elastic", probe).set("key", "value")
    return bool(heard)


def can_reconfigure(dist: Any) -> bool:
    """Whether this torch may give a group other members."""
    return all(hasattr(dist, name) for name in RECONFIGURE)


def begin_without_members(dist: Any, backend: str, store: Any, number: int) -> bool:
    """Make the default group, of this process alone. False: the backend cannot be given other members."""
    dist.init_process_group(backend, store=store, rank=number, world_size=number + 1, enable_reconfigure=True)
    return bool(dist._supports_reconfigure())


def handle(dist: Any) -> Any:
    """What the other members need to know of this process."""
    return dist._get_reconfigure_handle()


def reconfigure(dist: Any, generation: int, handles: List[Any], limit: datetime.timedelta) -> None:
    """Give the default group other members."""
    dist._reconfigure(generation, handles, timeout=limit).wait()


def default_group(dist: Any) -> Any:
    return dist.distributed_c10d._get_default_group()


def groups(dist: Any) -> List[Any]:
    """All groups of the process. Torch 2.0 and later have them in _world."""
    world = getattr(dist.distributed_c10d, "_world", None)
    return list(dist.distributed_c10d._pg_map if world is None else world.pg_map)


def names(dist: Any) -> Optional[int]:
    """How many names of groups were given. None: this torch does not count there."""
    return getattr(getattr(dist.distributed_c10d, "_world", None), "group_count", None)


def set_names(dist: Any, count: int) -> None:
    dist.distributed_c10d._world.group_count = count


def cuda_backend(group: Any, cuda: Any) -> Any:
    """The backend of a group for GPUs. The group itself, if it has none, as one of gloo, or if this torch has another
    name for it."""
    with contextlib.suppress(Exception):
        return group._get_backend(cuda)
    return group


def has_symmetric_memory() -> bool:
    """Whether the process has made symmetric memory, which keeps the communicators of its world."""
    memory = sys.modules.get("torch.distributed._symmetric_memory")
    return bool(getattr(memory, "_group_name_to_workspace_tensor", None) or getattr(memory, "_symm_mem_pools", None))


def release(wrapper: Any) -> bool:
    """Take the reducer from a DistributedDataParallel, so that it ignores gradients. False: it has none that is known.
    Its hooks end with the reducer in versions of torch that have no method for that."""
    if "reducer" not in wrapper.__dict__:
        return False
    with contextlib.suppress(Exception):
        wrapper.reducer._remove_autograd_hooks()
    wrapper.__dict__.pop("reducer")
    wrapper.__dict__.pop("logger", None)  # it holds the reducer
    return True
