"""Transformers' Trainer at any number of nodes.

    trainer = elastic.hf.attach(Trainer(model=model, args=args, train_dataset=data))
    trainer.train()

attach() takes the directory, the checkpoint to go on from, the batch and its accumulation from the
launcher, and gives the Trainer a loader that has each sample of an epoch once. Callback() alone
stops at the same step on all ranks, marks saves and reports progress.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional

import torch
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from .environment import world
from .epochs import Epochs
from .errors import ElasticError
from .reporting import progress
from .saving import put_mark
from .stopping import should_stop, stopper


class Callback(TrainerCallback, ExportableState):
    """Stops when the launcher asks for it, after a save; marks each save; reports progress."""

    def __init__(self) -> None:
        self.terms: Dict[str, int] = {}  # of the data, in trainer_state.json
        self._epochs: Optional[Epochs] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        sampler = getattr(more.get("train_dataloader"), "batch_sampler", None)
        if isinstance(sampler, Epochs):
            self._epochs, self.terms = sampler, sampler.terms()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._epochs:  # some Trainers tell the sampler which epoch it is, some only when they go on in the middle
            self._epochs.set_epoch(state.global_step // self._epochs.steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> Any:
        position = self._epochs.position(state.global_step) if self._epochs else {}
        progress(step=state.global_step, samples=position.get("samples"), total_steps=state.max_steps)
        if should_stop():
            control.should_save = control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if logs and "loss" in logs:
            progress(step=state.global_step, loss=logs["loss"], total_steps=state.max_steps)

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if world().rank == 0:
            step = state.global_step
            position = self._epochs.position(step) if self._epochs else {}
            put_mark(os.path.join(args.output_dir, f"checkpoint-{step}"), {"step": step, **position})

    def state(self) -> Dict[str, Any]:
        return {"args": {}, "attributes": {"terms": self.terms}}


def attach(trainer: Any) -> Any:
    """Make a Trainer elastic, before trainer.train(). Returns it."""
    args = trainer.args
    _refuse(trainer)
    w = world(batch_size=args.per_device_train_batch_size * args.gradient_accumulation_steps * world().size)
    args.per_device_train_batch_size = trainer._train_batch_size = w.micro_batch_size
    args.gradient_accumulation_steps = w.accumulation
    args.average_tokens_across_devices = True
    args.logging_nan_inf_filter = False  # it would log the mean in place of a loss that is not a number
    args.output_dir = w.checkpoint_dir or args.output_dir
    args.save_total_limit = args.save_total_limit or 2
    seed = args.seed if args.data_seed is None else args.data_seed
    tokens = trainer.model_accepts_loss_kwargs or trainer.compute_loss_func is not None
    epochs = Epochs(len(trainer.train_dataset), seed, mark_stand_ins=tokens)
    if w.resume_from:
        with open(os.path.join(w.resume_from, "trainer_state.json"), encoding="utf-8") as file:
            saved = json.load(file).get("stateful_callbacks", {}).get("Callback", {})
        epochs.check(saved.get("attributes", {}).get("terms"))
    plain_loader, plain_train, plain_loss = trainer.get_train_dataloader, trainer.train, trainer.compute_loss

    def train(resume_from_checkpoint: Any = None, *more: Any, **named: Any) -> Any:
        result = plain_train(resume_from_checkpoint or w.resume_from, *more, **named)
        if stopper().agreed:
            stopper().leave()
        return result

    def compute_loss(model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        loss = plain_loss(model, inputs, *more, **named)
        if not model.training or named.get("num_items_in_batch") is not None:
            return loss
        weights.extend([] if weights else epochs.weights(trainer.state.global_step))
        return loss * (weights.pop(0) * w.accumulation)  # the Trainer divides by the accumulation

    weights: List[float] = []
    trainer.get_train_dataloader = lambda: _loader(plain_loader(), epochs)
    trainer.train, trainer.compute_loss = train, compute_loss
    trainer.add_callback(Callback())
    return trainer


def _refuse(trainer: Any) -> None:
    args = trainer.args
    wrong = {
        "train_dataset without a length (IterableDataset)": not hasattr(trainer.train_dataset, "__len__"),
        f"train_sampling_strategy={args.train_sampling_strategy}": args.train_sampling_strategy != "random",
        "dataloader_drop_last": args.dataloader_drop_last,
        "fsdp or deepspeed (a sharded state: save it by elastic.dcp)": args.fsdp or args.deepspeed,
        "auto_find_batch_size": args.auto_find_batch_size,
        "n_gpu above 1 (DataParallel: one process a GPU)": args.n_gpu > 1,
    }
    for name, is_so in wrong.items():
        if is_so:
            raise ElasticError(f"elastic.hf.attach: {name} cannot be combined with each sample once")


class _Data(torch.utils.data.Dataset):
    """Marks the stand-ins of Epochs."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        return (self._data[index], False) if index >= 0 else (self._data[~index], True)


def _loader(made: Any, epochs: Epochs) -> Any:
    """The Trainer's loader, with the micro-batches of Epochs. The labels of a stand-in do not count."""

    def collate(samples: List[Any]) -> Any:
        batch = made.collate_fn([sample for sample, _ in samples])
        if samples[0][1]:
            batch["labels"] = torch.full_like(batch["labels"], -100)
        return batch

    names = ("num_workers", "pin_memory", "worker_init_fn", "prefetch_factor", "persistent_workers", "multiprocessing_context")
    options = {name: getattr(made, name) for name in names}
    return torch.utils.data.DataLoader(_Data(made.dataset), batch_sampler=epochs, collate_fn=collate, **options)
