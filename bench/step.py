"""The worker of the comparison: an all-reduce for each step, and notes of when it started and made its first step."""
import os
import time

began = time.time_ns()
directory = os.environ["BENCH_DIR"]
notes = open(os.path.join(directory, "starts", str(os.getpid())), "a", buffering=1)
print("started", began, file=notes)

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
first = True
while True:
    gradient = torch.ones(1000)
    dist.all_reduce(gradient)
    if first:
        first = False
        print("step", time.time_ns(), file=notes)
    if dist.get_rank() == 1:
        try:
            os.remove(os.path.join(directory, "crash"))
        except FileNotFoundError:
            pass
        else:
            with open(os.path.join(directory, "crashed"), "w") as f:
                f.write(str(time.time_ns()))
            os._exit(3)
    time.sleep(0.02)
