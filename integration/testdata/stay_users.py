# Trains as stay.py does, in the way that its argument names: as scripts of users do.
import copy
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import elastic

way = sys.argv[1]
torch.manual_seed(0)
torch.set_num_threads(1)
front = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU()).double()
back = torch.nn.Linear(32, 4).double()
net = torch.nn.Sequential(front, back)
optimizers = [torch.optim.SGD(front.parameters(), lr=0.05, momentum=0.9), torch.optim.AdamW(back.parameters(), lr=0.01)]
schedules = [torch.optim.lr_scheduler.StepLR(o, 50, 0.999) for o in optimizers]
average = copy.deepcopy(net)
data = torch.randn(960, 16, generator=torch.Generator().manual_seed(1), dtype=torch.double)
wanted = data[:, :4].argmax(1)
loss_of = torch.nn.CrossEntropyLoss()
elastic.world(batch_size=48)
sampler = elastic.Sampler(len(data), seed=0)
state = elastic.State(
    model=net, average=average, front=optimizers[0], back=optimizers[1], schedule=schedules[0], other=schedules[1],
    sampler=sampler, best=1e9, save_every=None,
)
pace = float(os.environ.get("PACE", "0.01"))
asked = []
if way == "signals":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda n, _: asked.append(n))


def target():
    try:
        with open("target") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return 1 << 60


def batches():
    """Indices of the samples of each step."""
    if way != "loader":
        return iter(sampler)
    batch = sampler.batch_sampler()
    loader = torch.utils.data.DataLoader(range(len(data)), batch_sampler=batch, num_workers=2, collate_fn=list)
    return iter(loader)


def learn(model, indices):
    """Accumulates the gradients of a step in two parts."""
    for o in optimizers:
        o.zero_grad()
    parts = [indices[0::2], indices[1::2]]
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        weight = len(part) / max(1, len(indices)) * elastic.world().loss_weight
        model.require_backward_grad_sync = last  # as no_sync() does
        loss = loss_of(model(data[part]), wanted[part]) * weight if part else model(data[:1]).sum() * 0
        loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    for o, s in zip(optimizers, schedules):
        o.step()
        s.step()
    with torch.no_grad():
        for mean, now in zip(average.parameters(), net.parameters()):
            mean.mul_(0.99).add_(now, alpha=0.01)
    return loss.detach()


def evaluate(world):
    """Between steps: a barrier, the loss of all data dealt to the ranks, and a file of rank 0."""
    dist.barrier()
    mine = range(world.rank, len(data), world.size)
    with torch.no_grad():
        total = torch.nn.functional.cross_entropy(net(data[mine]), wanted[mine], reduction="sum")
    dist.all_reduce(total)
    state.best = min(state.best, round(total.item() / len(data), 9))
    if world.rank == 0:
        torch.save(net.state_dict(), f"best-{os.getpid()}.pt")
    dist.barrier()


@elastic.train(state, backend="gloo")
def loop(world):
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    front.register_forward_hook(lambda *_: None)
    child = subprocess.Popen(["sleep", "1000"]) if way == "children" else None
    subgroup = dist.new_group(list(range(world.size))) if way == "subgroup" else None
    reported = False
    while state.step < target():
        for indices in batches():
            try:
                loss = learn(ddp, indices)
            except Exception as error:
                if way != "catches":
                    raise
                print("caught", str(error)[:60], flush=True)
                continue
            if way == "between":
                dist.all_reduce(loss)
            if subgroup is not None:
                dist.all_reduce(torch.ones(1), group=subgroup, async_op=True)
            state.end_step(loss=loss.item())
            if not reported:
                print(f"generation {world.generation} rank {world.rank} of {world.size} pid {os.getpid()}: step {state.step}"
                      f" at {time.time_ns()} after 0", flush=True)
                reported = True
            if way == "evaluates" and state.step % 7 == 0:
                evaluate(world)
            if way == "exits" and state.step == target():
                end()
            if state.step >= target():
                break
            time.sleep(pace)
    if child:
        child.kill()


def end():
    print(f"through: {state.step} steps, {sum(p.abs().sum().item() for p in net.parameters()):.9f} "
          f"{sum(p.abs().sum().item() for p in average.parameters()):.9f} {schedules[1].get_last_lr()[0]:.12f}", flush=True)
    sys.exit(0)


loop()
end()
