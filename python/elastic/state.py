"""All that training needs to go on in another world."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Union

from . import saving, wrappers
from .collective import gather, share_newest
from .environment import world
from .errors import ElasticError, LoadError, whole_number
from .reporting import detached, reporter
from .sampler import Sampler
from .stopping import stopper


class State:
    """The model, the optimizer, the position in the data, the step, and whatever else has to
    survive. Each is an attribute: state.model, state.step, state.best_accuracy.

        state = elastic.State(model=net, optimizer=opt, sampler=sampler, best=0.0)
        state.load()

    Anything with state_dict and load_state_dict is saved by them, a plain value as it is.
    One attribute may be an elastic.Sampler; `step` counts optimizer steps and begins at 0.

    save_every: steps ("100" or 100) or time ("30s", "5m") between two saves of commit();
    None: only save() and a stop save. checkpoint_dir: the launcher's, else none and nothing
    is saved. keep: checkpoints that stay in it.
    """

    def __init__(
        self,
        *,
        save_every: Union[int, str, None] = "30s",
        checkpoint_dir: Optional[str] = None,
        keep: int = 2,
        **values: Any,
    ) -> None:
        for name in values:
            if name.startswith("_") or hasattr(type(self), name):
                raise ElasticError(f"State({name}=…): the name is taken; choose another")
        samplers = [name for name, value in values.items() if isinstance(value, Sampler)]
        if len(samplers) > 1:
            raise ElasticError(f"State has {len(samplers)} samplers ({', '.join(samplers)}): only one is trained on")
        values.setdefault("step", 0)
        whole_number("step", values["step"], 0)
        self._names = list(values)
        self._sampler: Optional[Sampler] = values[samplers[0]] if samplers else None
        self._samples = 0
        self._every_steps, self._every_seconds = _interval(save_every)
        self._keep = whole_number("keep", keep, 1)
        self._directory = checkpoint_dir or world().checkpoint_dir
        self._saved_step, self._saved_at = -1, time.monotonic()
        self.step: int
        for name, value in values.items():
            setattr(self, name, value)
        self._follower: Optional[Callable[[], None]] = None
        self._held = False
        self._torn = False
        self._was_held = False
        self._sharded = False  # each rank has only a part of it
        self._first = (0, 0.0)  # the generation at hand, and when its first step ended
        self._ended = 0.0  # when the newest step of this state ended here; 0: none did
        self._before = 0.0  # when the newest one before this generation did
        for value in values.values():
            if hasattr(value, "register_step_post_hook"):
                value.register_step_post_hook(self._tear)
        self._bind()
        stopper()

    if TYPE_CHECKING:  # the values of the script: type checkers know nothing of them

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def samples(self) -> int:
        """Samples that all ranks have taken in all committed steps."""
        return self._sampler.position if self._sampler else self._samples

    def load(self) -> bool:
        """Go on from the committed checkpoint; False: there is none. Call it on every rank, after the
        process group was made: a rank without the files gets the state of one that has them.

        A checkpoint that is there and cannot be read is an error. Training never starts
        over because of one. It is also an error if ranks would take different batches,
        or use different data, because samples would be lost and repeated."""
        w = world()
        same_terms(gather(self.terms()))
        path = w.resume_from
        if path is None and not w.managed and self._directory is not None:
            path = saving.newest(self._directory)
        content: Optional[Dict[str, Any]] = None
        unreadable: Optional[Exception] = None
        if path is not None:
            try:
                content = saving.read(path)
            except LoadError as error:
                unreadable = error
        content = share_newest(content["step"] if content else -1, content)
        if content is None:
            if unreadable is not None:
                raise unreadable
            return False
        self._restore(content)
        return True

    def save(self) -> Optional[str]:
        """Save now; only rank 0 writes. Returns the path, None where nothing was written."""
        self._saved_at = time.monotonic()
        if world().rank != 0 or self._directory is None or self._saved_step == self.step or self._sharded:
            return None
        content = self.content()
        mark: Dict[str, Any] = {"step": self.step, "samples": self.samples}
        if self._sampler is not None:
            mark.update(
                epoch=self._sampler.epoch,
                seed=self._sampler.seed,
                consumed=self._sampler.consumed,
                dataset_size=self._sampler.n,
            )
        path = saving.write(self._directory, content, mark)
        saving.retain(self._directory, self.step, self._keep)
        self._saved_step = self.step
        return path

    def commit(self, loss: Any = None) -> None:
        """End a step, on every rank: count it and its samples, report it to the launcher, save when
        it is time, and stop when the launcher wants it, at the same step on every rank.

        loss is for people and for --on-nan: a number, or a tensor of one element, which is
        read in the background."""
        has_samples = self._sampler is None or self._sampler.has_samples
        self.step += 1
        if self._sampler is not None:
            self._sampler.advance()
        else:
            self._samples += world().global_batch_size
        now = time.time()
        if self._first[0] != world().generation:
            self._first, self._before = (world().generation, now), self._ended
        self._ended = now
        figures: Dict[str, Any] = {"step": self.step, "samples": self.samples, "first": self._first[1]}
        if self._before:
            figures["before"] = self._before
        if self._sampler is not None and self._sampler.total:
            figures["total_samples"] = self._sampler.total
        if loss is not None and has_samples:
            figures["loss"] = detached(loss)
        reporter().report(figures)
        self._torn = False
        if self._follower is not None:
            self._follower()
        elif stopper().step():
            self.save_or_say()
            stopper().leave()
        if self._due():
            self.save_or_say()

    # For elastic.train.

    def follow(self, follower: Optional[Callable[[], None]]) -> None:
        """Call a function between two steps, in place of the vote to stop."""
        self._follower = follower

    def hold(self) -> None:
        """This rank has the state that the world goes on from."""
        self._held, self._torn, self._was_held = True, False, True

    def torn(self) -> bool:
        """Whether a step was left between the step of the optimizer and commit()."""
        return self._torn

    def was_held(self) -> bool:
        """Whether this rank has been in a world. Then its state is not the one that the script began with."""
        return self._was_held

    def held_step(self) -> Optional[int]:
        """The step of the state that this rank has. None: it has no state, or its state was left between the
        step of the optimizer and commit(), and belongs to no step."""
        return self.step if self._held and not self._torn else None

    def newly_sharded(self) -> Optional[str]:
        """What spreads the state over the ranks, when it is first found; None at all other times."""
        kind = wrappers.sharded([getattr(self, name) for name in self._names])
        new, self._sharded = kind is not None and not self._sharded, self._sharded or kind is not None
        return kind if new else None

    def content(self) -> Dict[str, Any]:
        """Everything that a rank without a state needs."""
        content = {name: _content(getattr(self, name)) for name in self._names}
        content["samples"] = self.samples
        return content

    def take(self, content: Dict[str, Any]) -> None:
        """Go on from the content of another rank, or of a checkpoint."""
        self._held, self._was_held = False, True  # a mixture of two states, until all of it is here
        self._restore(content)
        self._saved_step, self._ended = -1, 0.0

    def _tear(self, *_: Any) -> None:
        self._torn = True

    def save_or_say(self) -> None:
        """Save. If the disk refuses it, training goes on, and the next save is made at its usual time."""
        try:
            self.save()
        except OSError as error:
            print(f"elastic: step {self.step} is not saved: {error}; training goes on", file=sys.stderr)

    def _due(self) -> bool:
        if self._every_steps:
            return self.step % self._every_steps == 0
        if self._every_seconds:
            return time.monotonic() - self._saved_at >= self._every_seconds
        return False

    def terms(self) -> Dict[str, Any]:
        """What must be equal on all ranks, so that they divide the same samples."""
        terms: Dict[str, Any] = {"global batch": world().global_batch_size, "accumulation": world().accumulation}
        if self._sampler is not None:
            terms.update(self._sampler.identity())
        return terms

    def _bind(self) -> None:
        """Make the world compute with the position of this state."""
        w = world()
        w._samples = lambda: self.samples
        if self._sampler is not None:
            sampler = self._sampler
            w._weight = lambda: sampler.loss_weight

    def _restore(self, content: Dict[str, Any]) -> None:
        missing = [name for name in self._names if name not in content]
        if missing:
            raise LoadError(f"the checkpoint has no {', '.join(missing)}: it was saved by another script")
        if self._sampler is not None:  # it refuses what does not fit, before anything has changed
            name = next(n for n in self._names if getattr(self, n) is self._sampler)
            self._sampler.load_state_dict(content[name])
        for name in self._names:
            value = getattr(self, name)
            if value is self._sampler:
                continue
            loader = _loader(value)
            if loader is not None:
                loader(content[name])
            else:
                setattr(self, name, content[name])
        self._samples = content["samples"]
        self._saved_step = self.step


def same_terms(all_ranks: List[Dict[str, Any]]) -> None:
    """Refuse a world whose ranks have different terms. All ranks refuse it with the same error, so none
    is left waiting."""
    terms = all_ranks[0]
    for rank, theirs in enumerate(all_ranks):
        differs = [name for name in terms if theirs.get(name) != terms[name]]
        if differs:
            name = differs[0]
            raise ElasticError(
                f"rank {rank} has {name}={theirs.get(name)}, rank 0 has {name}={terms[name]}: "
                "samples would be lost or repeated; give every rank the same data set, seed and batch"
            )


def _bare(value: Any) -> Any:
    """The module inside of a data-parallel wrapper. A checkpoint has the module without its wrapper."""
    wrapped = type(value).__name__ in ("DistributedDataParallel", "DataParallel")
    return getattr(value, "module", value) if wrapped else value


def _loader(value: Any) -> Any:
    """The method that takes what state_dict() gave; None for a plain value."""
    value = _bare(value)
    if not hasattr(value, "state_dict"):
        return None
    return getattr(value, "load_state_dict", None) or getattr(value, "set_state_dict", None)


def _content(value: Any) -> Any:
    return _bare(value).state_dict() if _loader(value) is not None else value


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _interval(every: Union[int, str, None]) -> "tuple[int, float]":
    """Steps and seconds of save_every; one of them is 0, or both."""
    if every is None:
        return 0, 0.0
    if isinstance(every, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", every)
        if match:
            return 0, float(match[1]) * _UNITS[match[2]]
        if not every.isdigit():
            raise ElasticError(f'save_every={every!r}: steps (100) or a time ("30s", "5m")')
        every = int(every)
    return whole_number("save_every", every, 1), 0.0
