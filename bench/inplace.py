"""The worker of step.py with the helper's training function: the process lives on when the world changes, and notes each world."""
import os
import time

began = time.time_ns()
directory = os.environ["BENCH_DIR"]
notes = open(os.path.join(directory, "starts", str(os.getpid())), "a", buffering=1)

import torch
import torch.distributed as dist

import elastic

state = elastic.State(save_every=None)


@elastic.train(state, backend="gloo")
def loop(world):
    print("started", time.time_ns(), file=notes)
    first = True
    while True:
        gradient = torch.ones(1000)
        dist.all_reduce(gradient)
        if first:
            first = False
            print("step", time.time_ns(), file=notes)
        if world.rank == 1:
            try:
                os.remove(os.path.join(directory, "crash"))
            except FileNotFoundError:
                pass
            else:
                with open(os.path.join(directory, "crashed"), "w") as f:
                    f.write(str(time.time_ns()))
                os._exit(3)
        state.commit()
        time.sleep(0.02)


loop()
