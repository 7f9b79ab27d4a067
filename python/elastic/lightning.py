"""Lightning's Trainer at any number of nodes.

    elastic.lightning.fit(trainer, module, loader)       # in place of trainer.fit(module, loader)

fit() goes on from the committed checkpoint, takes the batch and its accumulation from the launcher,
and gives the Trainer a loader that has each sample of an epoch once. Callback() alone, among the
callbacks of a Trainer, saves with a mark, stops at the same step on all ranks and reports progress.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

import torch
from lightning.pytorch import callbacks

from .environment import world
from .epochs import Epochs
from .errors import ElasticError, MismatchError, whole_number
from .reporting import progress
from .saving import newest, path_of, put_mark, retain
from .stopping import should_stop, stopper

_FILE = "lightning.ckpt"


class Callback(callbacks.Callback):
    """Saves every so many optimizer steps, and before a planned stop; keeps the newest saves."""

    def __init__(self, save_every: int = 100, keep: int = 2) -> None:
        self._save_every, self._keep = whole_number("save_every", save_every, 1), whole_number("keep", keep, 1)
        self._epochs: Optional[Epochs] = None
        self._weights: List[float] = []
        stopper()  # listens to SIGTERM

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Take SIGTERM back. Lightning's handler would end the training without a save, and exchanges
        data between the ranks in the middle of a step."""
        stopper().take_back()

    def use(self, epochs: Epochs) -> None:
        """Train on the samples of these epochs."""
        self._epochs = epochs

    def on_before_backward(self, trainer: Any, module: Any, loss: Any) -> None:
        if self._epochs is not None:  # the Trainer has divided the loss by the accumulation
            self._weights = self._weights or self._epochs.weights(trainer.global_step)
            loss.mul_(self._weights.pop(0) * world().accumulation)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % trainer.accumulate_grad_batches and batch_idx + 1 < trainer.num_training_batches:
            return
        step, position = trainer.global_step, self._position(trainer.global_step)
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        progress(step=step, samples=position.get("samples"), loss=loss, total_steps=trainer.estimated_stepping_batches)
        stop = should_stop()
        if stop or step % self._save_every == 0:
            self._save(trainer, step)
        if stop:
            stopper().leave()

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self._save(trainer, trainer.global_step)

    def on_load_checkpoint(self, trainer: Any, module: Any, checkpoint: Dict[str, Any]) -> None:
        """Lightning counts micro-batches, of which a step may have had another number."""
        if self._epochs is None:
            return
        self._epochs.check(checkpoint.get("elastic"))
        step = checkpoint["global_step"]
        self._epochs.begin_at(step)
        counts = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        for name, steps in (("total", step), ("current", step % self._epochs.steps)):
            done = steps * world().accumulation
            late = counts[name]["ready"] - counts[name]["completed"]
            counts[name] = {"ready": done, "started": done, "processed": done, "completed": done - late}

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: Dict[str, Any]) -> None:
        checkpoint["elastic"] = self._epochs.terms() if self._epochs else {}

    def _save(self, trainer: Any, step: int) -> None:
        directory = world().checkpoint_dir
        if directory is None:
            return
        path = path_of(directory, step)
        trainer.save_checkpoint(os.path.join(path, _FILE))
        if world().rank == 0:
            put_mark(path, {"step": step, **self._position(step)})
            retain(directory, step, self._keep)

    def _position(self, step: int) -> Dict[str, int]:
        return self._epochs.position(step) if self._epochs else {}


def fit(trainer: Any, module: Any, loader: Any, save_every: int = 100, seed: int = 0, shuffle: bool = True, **more: Any) -> None:
    """Call trainer.fit, elastically. loader is an ordinary DataLoader; its batch size is used where the
    launcher gives none, its order is that of seed and shuffle. more goes to trainer.fit."""
    wrong = {
        "a loader without a length (IterableDataset)": not hasattr(loader.dataset, "__len__"),
        "a loader with drop_last": loader.drop_last,
        f"{type(trainer.strategy).__name__} (a sharded state: save it by elastic.dcp)": any(
            name in type(trainer.strategy).__name__ for name in ("FSDP", "DeepSpeed", "ModelParallel")
        ),
        "manual optimization": not module.automatic_optimization,
    }
    for name, is_so in wrong.items():
        if is_so:
            raise ElasticError(f"elastic.lightning.fit: {name} cannot be combined with each sample once")
    w = world(batch_size=(loader.batch_size or 1) * trainer.accumulate_grad_batches * world().size)
    trainer.accumulate_grad_batches = w.accumulation
    trainer._accelerator_connector.use_distributed_sampler = False  # it would split the samples of each rank again
    epochs = Epochs(len(loader.dataset), seed, shuffle)
    callback = Callback(save_every)
    callback.use(epochs)
    trainer.callbacks.insert(0, callback)
    names = ("num_workers", "pin_memory", "worker_init_fn", "prefetch_factor", "persistent_workers", "collate_fn")
    options = {name: getattr(loader, name) for name in names}
    path = w.resume_from if w.managed or w.checkpoint_dir is None else newest(w.checkpoint_dir)
    if path is not None and not os.path.exists(os.path.join(path, _FILE)):
        raise MismatchError(f"{path} has no {_FILE}: it was saved by another script")
    more.setdefault("ckpt_path", path and os.path.join(path, _FILE))
    trainer.fit(module, _Loader(loader.dataset, batch_sampler=epochs, **options), **more)


class _Loader(torch.utils.data.DataLoader):
    """Lightning asks for these two before it goes on in the middle of an epoch; the position is in the step."""

    def state_dict(self) -> Dict[str, Any]:
        return {}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        pass
