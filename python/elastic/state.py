"""All that training needs to go on in another world."""

from __future__ import annotations

import atexit
import sys
import weakref
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Union

from . import saving, wrappers
from .collective import gather, share_newest
from .course import Course
from .environment import world
from .errors import ElasticError, LoadError, whole_number
from .keeping import Keeping
from .sampler import Sampler
from .stopping import stopper


class State:
    """The model, the optimizer, the position in the data, the step, and whatever else has to
    survive. Each is an attribute: state.model, state.step, state.best_accuracy.

        state = elastic.State(model=net, optimizer=opt, sampler=sampler, best=0.0)
        state.load()

    Anything with state_dict and load_state_dict is saved by them, a plain value as it is. load() fills dicts, lists,
    sets, tensors, arrays and plain objects in place; numbers, and objects that it cannot fill, are new ones, which
    the script has as state.NAME. Which parameters are trained (requires_grad) is part of the state.
    One attribute may be an elastic.Sampler; `step` counts ended steps and begins at 0.

    save_every: steps ("100" or 100) or time ("30s", "5m") between two saves at the end of a step;
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
        begin = whole_number("step", values.pop("step", 0), 0)
        for name in values:
            if name.startswith("_") or hasattr(type(self), name):
                raise ElasticError(f"State({name}=…): the name is taken; choose another")
        samplers = [name for name, value in values.items() if isinstance(value, Sampler)]
        if len(samplers) > 1:
            raise ElasticError(f"State has {len(samplers)} samplers ({', '.join(samplers)}): only one is trained on")
        wrappers.refuse_sharded(values)
        wrappers.refuse_positions(values)
        self._names = list(values)
        for name, value in values.items():
            setattr(self, name, value)
        sampler: Optional[Sampler] = values[samplers[0]] if samplers else None
        self._course = Course(self._values, sampler, Keeping(save_every, checkpoint_dir, keep))
        self._course.step = begin
        self._course.hooks()
        self._bind(sampler)
        atexit.register(_save_what_is_wanted, weakref.ref(self))
        stopper()

    if TYPE_CHECKING:  # the values of the script: type checkers know nothing of them

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def step(self) -> int:
        """Steps that have ended."""
        return self._course.step

    @step.setter
    def step(self, value: Any) -> None:
        raise ElasticError("state.step is counted by state.end_step(); a script that sets it would count each step twice")

    @property
    def samples(self) -> int:
        """Samples that all ranks have taken in all ended steps."""
        return self._course.samples

    def load(self) -> bool:
        """Go on from the committed checkpoint; False: there is none. Call it on every rank, after the
        process group was made: a rank without the files gets the state of one that has them.

        A checkpoint that is there and cannot be read is an error. Training never starts
        over because of one. It is also an error if ranks would take different batches,
        or use different data, because samples would be lost and repeated."""
        w = world()
        wrappers.refuse_sharded(self._values())
        self._course.keeping.wait()
        same_terms(gather(self._terms()))
        path = w.resume_from
        if path is None and not w.managed and self._course.keeping.directory is not None:
            path = saving.newest(self._course.keeping.directory)
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
            self._course.begin_alone()
            return False
        self._course.restore(self, content)
        self._course.keeping.is_at(self._course.place)
        self._course.begin_alone()
        return True

    def save(self) -> Optional[str]:
        """Save, and return the path when the save is whole; only rank 0 writes. None where nothing is written now: in
        the middle of a step, or of the end of an epoch, the save is made when that has ended. Saves of save_every
        are written in the background: they hold up training for a copy of the state."""
        if self._course.is_open():
            self._course.keeping.wanted = True
            return None
        return self._course.save()

    def end_step(self, loss: Any = None) -> None:
        """End a step, on every rank, after its optimizers have stepped: count it and its samples, report it to the
        launcher, save when it is time, and stop when the launcher wants it, at the same step on every rank.

        In a loop over the sampler, or over steps(), the rest of the loop's body belongs to the step. Elsewhere
        all that changes the state comes before.

        loss is for people and for --on-nan: a number, or a tensor of one element, which is
        read in the background."""
        self._course.end(loss)

    commit = end_step  # its former name

    def once(self, name: str) -> bool:
        """Whether code of that name runs now: True once in a job, on every rank, so call it on every rank.

            for epoch in sampler.epochs(10):
                if state.once(f"note {epoch}"):     # the begin of an epoch runs again after each restart in it
                    note("epoch begins", epoch)

        The code belongs to the step at hand, and runs again only where that is interrupted before it has ended. A process
        that is started later does not run it: what it changes in memory must be part of the state."""
        return self._course.once.first(name)

    def steps(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches of a loader, each of which is a step:

            for x, y in state.steps(loader):
        """
        return self._course.steps(loader)

    def _values(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def _terms(self) -> Dict[str, Any]:
        """What must be equal on all ranks, so that they divide the same samples."""
        terms: Dict[str, Any] = {"global batch": world().global_batch_size, "accumulation": world().accumulation}
        if self._course.sampler is not None:
            terms.update(self._course.sampler.identity())
        return terms

    def _bind(self, sampler: Optional[Sampler]) -> None:
        """Make the world and the sampler know the course of this state."""
        w = world()
        w._samples = lambda: self.samples
        if sampler is not None:
            sampler.course = self._course
            w._weight = lambda: sampler.loss_weight


def _save_what_is_wanted(state: "weakref.ref[State]") -> None:
    """Save at the end of the process what a script wanted to save when it left its loop for good, and report the
    error of what was written last."""
    it = state()
    failed = getattr(sys, "last_value", None) is not None
    if it is not None:
        it._course.keeping.wait()
    if it is not None and it._course.keeping.wanted and not failed:
        it._course.save_or_say()


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
