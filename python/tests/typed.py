"""Not run: what type checkers must know of State. `make types` fails if a comment below is not needed any more."""

import elastic

state = elastic.State(best=0.0)
step: int = state.step
samples: int = state.samples
state.best = 1.0
best: float = state.best
state.load().bit_length()
state.save().upper()  # type: ignore[union-attr]
elastic.world().rank.bit_length()


@elastic.train(state)
def loop(world: elastic.World) -> None:
    world.rank.bit_length()
    world.ranks  # type: ignore[attr-defined]


loop()
