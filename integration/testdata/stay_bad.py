# Trains as stay.py does, and makes the mistake that its argument names.
import os
import sys

import torch

import elastic

mistake = sys.argv[1]
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Linear(8, 8).double()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
elastic.world(batch_size=8)
more = {"callback": lambda: None} if mistake == "uncopied" else {}
state = elastic.State(model=net, optimizer=optimizer, save_every=None, **more)
if mistake == "version":
    sys.modules["elastic.agent"].VERSION = 2
if mistake == "nccl":  # torch without a GPU has none: gloo stands in for it
    opens = torch.distributed.init_process_group
    torch.distributed.init_process_group = lambda backend, **more: opens("gloo", **more)
kept = None
caught = {"exceptions": Exception, "everything": BaseException}.get(mistake, ())


def step(model, data):
    optimizer.zero_grad()
    model(data).sum().backward()
    if mistake == "group":
        torch.distributed.all_reduce(torch.ones(1), group=kept)
    optimizer.step()
    state.end_step()


def wrapped():
    global kept
    if mistake == "kept":
        kept = kept or torch.nn.parallel.DistributedDataParallel(net)
        return kept
    if mistake == "fsdp":
        from torch.distributed.fsdp import fully_shard

        return fully_shard(net)
    if mistake == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        state.optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.01)
    return torch.nn.parallel.DistributedDataParallel(net)


@elastic.train(state, backend="cpu:gloo,cuda:nccl" if mistake == "nccl" else "gloo")
def loop(world):
    global kept
    model = wrapped()
    if mistake == "group":
        kept = kept or torch.distributed.new_group(list(range(world.size)))
    data = torch.ones(4, 8, dtype=torch.double)
    reported = False
    while not os.path.exists("target"):
        try:
            step(model, data)
        except caught as error:
            print("caught", type(error).__name__, flush=True)
            continue
        if not reported:
            print(f"generation {world.generation} rank {world.rank} of {world.size} pid {os.getpid()}: step {state.step}"
                  f" at 0 after 0", flush=True)
            reported = True
        if mistake == "own" and world.size == 3 and os.path.exists("own"):
            raise KeyError("mine")


loop()
print("through: all", flush=True)
