"""The course of training: what is finished, and what belongs to the step at hand.

A step is finished where the loop comes back for the next one, so that all that the script does in its body
belongs to it: a schedule, an evaluation, a log. What follows the last step of an epoch is finished where
epochs() is asked for the next one. These points are the boundaries. Only there the state is saved, this
process stops, or it goes on in another world. A rank that is interrupted anywhere else goes back to the
boundary before, and makes that part again.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

from . import contents, fingerprint, wrappers
from .agreement import Agreement
from .environment import world
from .errors import ElasticError, say
from .freezing import FROZEN, Frozen
from .keeping import Keeping
from .once import Once
from .randomness import Randomness
from .reporting import detached, reporter
from .sampler import Sampler
from .stopping import stopper
from .writing import or_say

Values = Dict[str, Any]


class Course:
    """The course of one State."""

    def __init__(self, values: Callable[[], Values], sampler: Optional[Sampler], keeping: Keeping) -> None:
        self.once = Once()
        own = {"once": self.once, FROZEN: Frozen(values)}
        self._values: Callable[[], Values] = lambda: {**values(), **own}
        self.sampler = sampler
        self.keeping = keeping
        self.step = 0
        self._counted = 0  # samples, without a sampler
        self._ended = False  # end_step() was called since the last boundary
        self._driven = False  # the step at hand is one of a loop that comes back here
        self._applied = False  # an optimizer has stepped since the last boundary
        self._at_boundary = True
        self._loss: Any = None
        self._copy: Any = None  # of the state at the last boundary, for elastic.train
        self._copies = False
        self._began = 0  # the generation in which a loop over a loader began
        self._held = False
        self._was_held = False
        self.follower: Optional[Callable[[], None]] = None
        self.gate: Optional[Callable[[], None]] = None  # raises where what was done since the last boundary may be wrong
        self._agreement = Agreement()
        self._randomness = Randomness()
        self._first = (0, 0.0)  # the generation at hand, and when its first step ended
        self._last = 0.0  # when the newest step of this state ended here; 0: none did
        self._before = 0.0  # when the newest one before this generation did
        self._sharded = False  # each rank has only a part of it, and this was said
        self._spread = False  # the same of the values themselves: they are neither copied nor compared
        self._looked = 0  # the generation in which the objects of the process were looked at

    # Where training is.

    @property
    def samples(self) -> int:
        return self.sampler.position if self.sampler is not None else self._counted

    @property
    def place(self) -> Tuple[int, int]:
        return self.step, self.sampler.epoch if self.sampler is not None else 0

    def content(self) -> Dict[str, Any]:
        """Everything that a rank without a state needs."""
        return {**contents.content(self._values()), "step": self.step, "samples": self.samples}

    def restore(self, owner: Any, content: Dict[str, Any]) -> None:
        contents.restore(owner, self._values(), {"once": {}, FROZEN: {}, **content})
        self.step, self._counted = content["step"], content["samples"]
        self._ended = self._driven = self._applied = False
        self._at_boundary = True

    # The boundaries, as the sampler and State.steps() tell them.

    def hooks(self) -> None:
        """Note when an optimizer steps."""
        for optimizer in contents.optimizers(self._values()):
            if hasattr(optimizer, "register_step_post_hook"):
                optimizer.register_step_post_hook(self._stepped)

    def _stepped(self, *_: Any) -> None:
        self._applied, self._at_boundary = True, False

    def steps(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches, for a loop whose body is a step."""
        if self.sampler is None and self.step > 0 and self._began != world().generation and world().rank == 0:
            say(
                f"training goes on after step {self.step}, and the loader has no elastic.Sampler: the loop takes its "
                "data from the begin again"
            )
        self._began = world().generation
        for batch in batches:
            self._driven, self._at_boundary = True, False
            try:
                yield batch
            finally:
                self._driven = False  # also if the loop is left
            self._is_back()

    def _is_back(self) -> None:
        """A loop comes back for the next step."""
        if not self._ended:
            if self.follower is not None:
                self.follower()  # the error that the script has caught may be that of a lost rank
            raise ElasticError(
                f"the loop asks for the batch after that of step {self.step + 1}, which was not ended: call state.end_step() "
                "once for each batch (micro-batches: sampler.split(); fetching ahead: sampler.batch_sampler())"
            )
        if not self._waits_for_epoch():
            self.boundary()

    def begins_epoch(self) -> None:
        """The sampler is asked for its batches."""
        if self._ended:
            self.boundary()

    def epoch_is_over(self) -> None:
        """The code after the last step of an epoch has run."""
        self.boundary()

    def end(self, loss: Any) -> None:
        """end_step() was called."""
        if self._ended and self._driven:
            raise ElasticError(
                f"state.end_step() was called twice for one batch, at step {self.step}: call it once, after all optimizers "
                "have stepped"
            )
        self._at_boundary = False
        self._agreement.is_whole(self._applied, contents.optimizers(self._values()))
        has_samples = self.sampler is None or self.sampler.has_samples
        self.step += 1
        if self.sampler is not None:
            self.sampler.advance()
        else:
            self._counted += world().global_batch_size
        self._loss = detached(loss) if loss is not None and has_samples else None
        self._ended, self._last_end = True, time.time()
        reporter().step_ended(self.step)
        if not self._driven and not self._waits_for_epoch():
            self.boundary()

    def _waits_for_epoch(self) -> bool:
        """Whether the code after an epoch follows, and nothing but the begin of the next one ends it."""
        s = self.sampler
        return s is not None and s.consumed == 0 and s.iterated

    def is_open(self) -> bool:
        """Whether the script is in the middle of a step, or of the end of an epoch, that will be finished here."""
        in_step = self._driven and (self._ended or self._applied)
        return in_step or self.sampler is not None and self.sampler.is_between_epochs

    def boundary(self) -> None:
        """All before this point is finished."""
        if self.gate is not None:
            self.gate()
        self._at_boundary = True
        if self._ended:
            self._report()
        self._ended = self._applied = False
        self._look()
        if not self._spread:
            self._agreement.check(self._values(), self.place)
        if self.follower is not None:
            self.follower()
        elif stopper().step():
            self.save_or_say()
            stopper().leave()
        if self.keeping.due(self.step):
            self._begin_save()
        self._go_on()

    def _go_on(self) -> None:
        """Leave the boundary."""
        self._randomness.set(self.step)
        if self._copies and not self._spread:
            self._copy = {**contents.copied(self._values(), self._copy), "step": self.step, "samples": self.samples}
        self._at_boundary = False

    def _report(self) -> None:
        if self._first[0] != world().generation:
            self._first, self._before = (world().generation, self._last_end), self._last
        self._last = self._last_end
        figures: Dict[str, Any] = {"step": self.step, "samples": self.samples, "first": self._first[1]}
        if self._before:
            figures["before"] = self._before
        if self.sampler is not None and self.sampler.total:
            figures["total_samples"] = self.sampler.total
        if self._loss is not None:
            figures["loss"] = self._loss
        reporter().report(figures)
        self._loss = None

    def _look(self) -> None:
        """Refuse, once in a world, what the process has made and the state cannot follow."""
        if self._looked == world().generation:
            return
        self._looked = world().generation
        self._spread = wrappers.is_spread(self._values())
        if self.sampler is not None:
            wrappers.refuse_unknown_mesh(self.sampler)
        if self.keeping.directory is not None and (self.keeping.every_steps or self.keeping.every_seconds):
            wrappers.refuse_sharded(self._values())

    # Saving.

    def save(self) -> Optional[str]:
        """Save, and return when the save is whole."""
        wrappers.refuse_sharded(self._values())
        return self.keeping.save(self.place, self.content, self._mark())

    def save_or_say(self) -> None:
        if not self._spread:
            or_say(self.step, self.save)

    def _begin_save(self) -> None:
        """Save in the background."""
        if not self._spread:
            wrappers.refuse_sharded(self._values())
            self.keeping.begin(self.place, self.content, self._mark())

    def _mark(self) -> Dict[str, Any]:
        mark: Dict[str, Any] = {"step": self.step, "samples": self.samples}
        if self.sampler is not None:
            mark.update(self.sampler.mark())
        return mark

    # For elastic.train.

    def follow(self, follower: Optional[Callable[[], None]]) -> None:
        """Call a function at each boundary, in place of the vote to stop, and copy the state there."""
        self.follower, self._copies = follower, follower is not None
        if follower is None:
            self._copy = None

    def hold(self) -> None:
        """This rank has the state that the world goes on from."""
        self._held, self._was_held = True, True
        contents.drop_gradients(self._values())
        self._go_on()

    def begin_alone(self) -> None:
        """Go on from what was loaded, or from scratch, without elastic.train."""
        contents.drop_gradients(self._values())
        self._go_on()

    def returns(self) -> None:
        """The training function has returned: what it left open is finished."""
        if self._ended or self.keeping.wanted:
            self.boundary()
        self.keeping.wait()

    def newly_sharded(self) -> Optional[str]:
        """What spreads the state over the ranks, when it is first found; None at all other times."""
        kind = wrappers.sharded(list(self._values().values()))
        new, self._sharded = kind is not None and not self._sharded, self._sharded or kind is not None
        return kind if new else None

    def go_back(self, owner: Any) -> None:
        """Go back to the last boundary, from wherever this rank was interrupted."""
        if self._at_boundary or not self._held or self._copy is None:
            return
        copy, self._copy = self._copy, None  # what is restored may share its tensors
        self.restore(owner, copy)
        contents.drop_gradients(self._values())

    def take(self, owner: Any, content: Dict[str, Any]) -> None:
        """Go on from the content of another rank, or of a checkpoint."""
        self._held, self._was_held = False, True  # a mixture of two states, until all of it is here
        self.restore(owner, content)
        self.keeping.forget()
        self._last, self._copy = 0.0, None

    def is_applied(self) -> bool:
        """Whether an optimizer has stepped, and its step is not ended yet: it is better finished than made again."""
        return self._applied and not self._ended

    def was_held(self) -> bool:
        """Whether this rank has been in a world. Then its state is not the one that the script began with."""
        return self._was_held

    def held(self) -> Optional[Tuple[int, int]]:
        """The place of the state that this rank has; None: it has none."""
        return self.place if self._held else None

    def fingerprint(self) -> Optional[int]:
        return self.fingerprint_of(self.held())

    def fingerprint_of(self, place: Optional[Tuple[int, int]]) -> Optional[int]:
        """The fingerprint of the state, where this rank has one, at a place."""
        return None if place is None else fingerprint.of(self._values(), place)
