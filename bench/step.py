"""The worker of the comparison: an all-reduce for each step, and notes of its starts and steps. With the argument
in-place it has the helper's training function: the process lives on when the world changes."""
import os
import sys
import time

began = time.time_ns()
in_place = "in-place" in sys.argv
directory = os.environ["BENCH_DIR"]
notes = open(os.path.join(directory, "starts", str(os.getpid())), "a", buffering=1)
if not in_place:
    print("started", began, file=notes)

import torch
import torch.distributed as dist


def train(rank, commit):
    """Train in one world, for ever. What is noted after each step but the first is "on"."""
    what = "step"
    while True:
        gradient = torch.ones(1000)
        dist.all_reduce(gradient)
        print(what, time.time_ns(), file=notes)
        what = "on"
        if rank == 1:
            try:
                os.remove(os.path.join(directory, "crash"))
            except FileNotFoundError:
                pass
            else:
                with open(os.path.join(directory, "crashed"), "w") as f:
                    f.write(str(time.time_ns()))
                os._exit(3)
        commit()
        time.sleep(0.02)


if in_place:
    import elastic

    state = elastic.State(save_every=None)

    @elastic.train(state, backend="gloo")
    def loop(world):
        print("started", time.time_ns(), file=notes)
        train(world.rank, state.commit)

    loop()
else:
    dist.init_process_group("gloo")
    train(dist.get_rank(), lambda: None)
