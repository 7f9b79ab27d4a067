"""FSDP2: parameters and optimizer sharded over all ranks, saved by torch.distributed.checkpoint.

    elastic run --np=1:3 --job-id=x --save-from=all python train.py      on each node
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import elastic
import elastic.dcp

BATCH = 24  # samples of all ranks together: 1, 2, 3 and 4 ranks make the same steps

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
world = elastic.world()
dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
fully_shard(model, mesh=init_device_mesh("cpu", (world.size,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
step = elastic.dcp.load(model=model, optimizer=optimizer) or 0


def batch(step):
    x = torch.randn(BATCH, 16, generator=torch.Generator().manual_seed(step))
    return x, torch.sin(x.sum(1, keepdim=True))


while step < args.steps:
    x, y = (part[world.rank :: world.size] for part in batch(step))
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    step += 1
    time.sleep(args.pause)
    elastic.progress(step=step, loss=loss, total_steps=args.steps)
    stop = elastic.should_stop()
    if stop or step % 5 == 0:
        elastic.dcp.save(step, model=model, optimizer=optimizer)
    if stop:
        break

x, y = batch(0)
loss = nn.functional.mse_loss(model(x), y)
if world.rank == 0:
    print(f"{step} steps: loss {loss.item():.12g}", flush=True)
dist.destroy_process_group()
