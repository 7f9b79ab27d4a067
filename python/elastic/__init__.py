"""Training that gives the same result at any world size.

    import elastic

    world = elastic.world(batch_size=32, lr=0.1)
    state = elastic.State(model=net, optimizer=opt, sampler=elastic.Sampler(len(data)))
    state.load()
    for epoch in state.sampler.epochs(10):
        for indices in state.sampler:
            ...one optimizer step on data[indices]; the loss times world.loss_weight...
            state.end_step(loss=loss)
        ...the end of the epoch: schedules, validation...
    state.save()

The same file runs under `elastic run`, under torchrun and under plain python. The
package needs the standard library alone; torch and Paddle are used where the script
has imported them already.
"""

__version__ = "0.1.0"

from .environment import World, world
from .errors import ElasticError, LoadError
from .marking import saved
from .reporting import progress
from .sampler import Sampler
from .state import State
from .stopping import Stopped, should_stop
from .training import train
from .weighing import weight, weights

__all__ = [
    "ElasticError",
    "LoadError",
    "Sampler",
    "State",
    "Stopped",
    "World",
    "progress",
    "saved",
    "should_stop",
    "train",
    "weight",
    "weights",
    "world",
]
