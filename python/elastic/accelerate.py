"""accelerate at any number of nodes.

    state, model, optimizer, loader = elastic.accelerate.prepare(accelerator, model=model, optimizer=optimizer, loader=loader)
    for epoch in state.sampler.epochs(3):
        for batch in loader:
            ...
            state.end_step(loss=loss)

A batch has the samples of this rank in one optimizer step, and each sample of an epoch is in one step;
multiply the loss by world.loss_weight. The loader is not that of accelerator.prepare(), which would
split the samples of each rank again.
"""

from __future__ import annotations

from typing import Any, Iterator, Tuple

from accelerate.utils import send_to_device
from torch.utils.data import DataLoader

from .environment import world
from .errors import ElasticError
from .sampler import Sampler
from .state import State

_SHARDED = ("FSDP", "DEEPSPEED", "MEGATRON_LM", "TP")


def prepare(
    accelerator: Any, *, model: Any, optimizer: Any, loader: Any, seed: int = 0, save_every: Any = "30s", **values: Any
) -> Tuple[State, Any, Any, "Loader"]:
    """Make a State of the model, the optimizer and more values, load the committed checkpoint into it, and let
    accelerate prepare the two. loader is an ordinary DataLoader; its batch size is used where the launcher
    gives none."""
    kind = str(getattr(accelerator.distributed_type, "value", accelerator.distributed_type))
    wrong = {
        f"{kind} (a sharded state: save it by elastic.dcp)": kind in _SHARDED,
        "gradient_accumulation_steps (cut a batch by state.sampler.split)": accelerator.gradient_accumulation_steps != 1,
        "a loader without a length (IterableDataset)": not hasattr(loader.dataset, "__len__"),
        "a loader with drop_last": loader.drop_last,
    }
    for name, is_so in wrong.items():
        if is_so:
            raise ElasticError(f"elastic.accelerate.prepare: {name} cannot be combined with each sample once")
    world(batch_size=loader.batch_size * world().size)
    sampler = Sampler(len(loader.dataset), seed)
    state = State(model=model, optimizer=optimizer, sampler=sampler, save_every=save_every, **values)
    state.load()
    made = Loader(loader, sampler, accelerator.device)
    return (state, *accelerator.prepare(model, optimizer), made)


class Loader:
    """The samples of this rank, on its device, from the position of the sampler on."""

    def __init__(self, loader: Any, sampler: Sampler, device: Any) -> None:
        names = ("num_workers", "pin_memory", "worker_init_fn", "prefetch_factor", "persistent_workers", "collate_fn")
        options = {name: getattr(loader, name) for name in names}
        self._loader = DataLoader(loader.dataset, batch_sampler=sampler.batch_sampler(), **options)
        self._device = device
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._sampler.course.steps(self._loader):
            yield send_to_device(batch, self._device)
