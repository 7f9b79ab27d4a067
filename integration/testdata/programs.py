# One of the programs that users write, named by its argument, in float64. Its result must be that of an undisturbed
# run, at whatever moment nodes come and go. With "restart" as second argument it does without elastic.train.
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import elastic

program, way = sys.argv[1], sys.argv[2]
torch.manual_seed(0)
torch.set_num_threads(1)
pace = float(os.environ.get("PACE", "0.02"))
front = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5 if program == "dropout" else 0.0)).double()
back = nn.Linear(32, 4).double()
net = nn.Sequential(front, back)
data = torch.randn(400, 16, generator=torch.Generator().manual_seed(1), dtype=torch.double)
wanted = data[:, :4].argmax(1)
tokens = torch.randint(1, 9, (400,), generator=torch.Generator().manual_seed(2))
elastic.world(batch_size=48)


def last_epoch():
    """The epoch that the file "target" names, which is written long before."""
    try:
        with open("target") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return 1 << 60


class Muon(torch.optim.SGD):
    """Has a collective in the middle of its step, as optimizers do that orthogonalize what others hold."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    update = p.grad.clone()
                    if dist.is_initialized() and dist.get_world_size() > 1:
                        dist.all_reduce(update)
                        update /= dist.get_world_size()
                    with torch.no_grad():
                        p.sub_(update, alpha=group["lr"])


def optimizer_of():
    groups = [{"params": front.parameters(), "lr": 0.05}, {"params": back.parameters(), "lr": 0.01}]
    if program == "adam":
        return [torch.optim.Adam(groups)]
    if program == "gan":
        return [torch.optim.SGD(front.parameters(), lr=0.05, momentum=0.9), torch.optim.Adam(back.parameters(), lr=0.01)]
    if program == "muon":
        return [Muon(groups, lr=0.05)]
    return [torch.optim.SGD(groups, lr=0.05, momentum=0.9)]


optimizers = optimizer_of()
schedules = [torch.optim.lr_scheduler.StepLR(o, 5, 0.99) for o in optimizers]
scaler = torch.amp.GradScaler("cuda", enabled=False) if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler(enabled=False)
sampler = elastic.Sampler(len(data), seed=0)
average = {name: p.detach().clone() for name, p in net.named_parameters()} if program == "average" else {}
if program == "unfreeze":
    front.requires_grad_(False)
state = elastic.State(
    model=net, sampler=sampler, save_every=7, validated=0, best=1e9, average=average,
    **{f"optimizer{i}": o for i, o in enumerate(optimizers)}, **{f"schedule{i}": s for i, s in enumerate(schedules)},
)


def loss_of(model, indices):
    if not indices:
        return model(data[:1]).sum() * 0
    out = model(data[indices])
    if program == "augmentation":
        noise = torch.stack([torch.randn(4, generator=torch.Generator().manual_seed(sampler.seed_of(i)), dtype=torch.double) for i in indices])
        out = out + 0.1 * noise
    if program == "tokens":
        each = nn.functional.cross_entropy(out, wanted[indices], reduction="none") * tokens[indices]
        count = tokens[indices].sum()
        return each.sum() / count * elastic.weight(count)
    return nn.functional.cross_entropy(out, wanted[indices]) * elastic.world().loss_weight


def learn(model, indices):
    if program != "zero_last":
        for o in optimizers:
            o.zero_grad()
    if program == "accumulation":
        for part, weight in sampler.split(indices):
            loss = nn.functional.cross_entropy(model(data[part]), wanted[part]) * weight if part else model(data[:1]).sum() * 0
            loss.backward()
    elif program == "gan":
        for o in optimizers:
            for each in optimizers:
                each.zero_grad()
            loss = loss_of(model, indices)
            loss.backward()
            o.step()
        return loss.detach()
    else:
        loss = loss_of(model, indices)
        (scaler.scale(loss) if program == "amp" else loss).backward()
    for o in optimizers:
        if program == "amp":
            scaler.step(o)
            scaler.update()
        else:
            o.step()
    if program == "zero_last":
        for o in optimizers:
            o.zero_grad()
    return loss.detach()


def validate(world):
    """All ranks, or rank 0 alone, look at all data."""
    if program == "rank0" and world.rank != 0:
        return
    with torch.no_grad():
        state.best = min(state.best, round(float(nn.functional.cross_entropy(net(data), wanted)), 9)) if program != "rank0" else 0
    time.sleep(5 * pace)


def batches():
    if program != "loader":
        return iter(sampler)
    from torch.utils.data import DataLoader

    loader = DataLoader(range(len(data)), batch_sampler=sampler.batch_sampler(), num_workers=2, collate_fn=list)
    return state.steps(loader)


def loop(world):
    def wrapped():
        return nn.parallel.DistributedDataParallel(net) if dist.is_initialized() and world.size > 1 else net

    model = wrapped()
    reported = False
    for epoch in sampler.epochs(1 << 40):
        if program == "unfreeze" and epoch >= 20 and state.once("unfreeze"):
            front.requires_grad_(True)
            model = wrapped()
        for indices in batches():
            loss = learn(model, indices)
            state.end_step(loss=loss)
            if not reported:
                print(f"generation {world.generation} rank {world.rank} of {world.size} pid {os.getpid()}: step {state.step}"
                      f" at {time.time_ns()} after 0", flush=True)
                reported = True
            if program == "evaluates" and state.step % 5 == 0:
                total = torch.ones(1, dtype=torch.double)
                if dist.is_initialized():
                    dist.all_reduce(total)
                state.best = state.best * 0.5 + 1
            with torch.no_grad():
                for name, value in average.items():
                    value.mul_(0.9).add_(net.get_parameter(name), alpha=0.1)
            time.sleep(pace)
        for s in schedules:
            s.step()
        validate(world)
        state.validated += 1
        if epoch >= last_epoch():
            break


if way == "restart":
    if elastic.world().size > 1:
        dist.init_process_group("gloo")
    state.load()
    loop(elastic.world())
    state.save()
else:
    elastic.train(state, backend="gloo")(loop)()
rates = [group["lr"] for o in optimizers for group in o.param_groups]
print(f"through: {state.step} steps, {sum(p.abs().sum().item() for p in [*net.parameters(), *average.values()]):.9f}, rates "
      f"{' '.join(f'{rate:.9f}' for rate in rates)}, {state.validated} validated", flush=True)
