# A file for each save, and the newest one is found by its name: nothing here knows Elastic.
import argparse
import glob
import os
import re
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--steps", type=int)
parser.add_argument("--pause", type=float, default=0)
args = parser.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
files = glob.glob(os.path.join(args.out, "model_step*.pt"))
step = max((int(re.search(r"step(\d+)", f)[1]) for f in files), default=0)
if step:
    saved = torch.load(os.path.join(args.out, f"model_step{step}.pt"), weights_only=True)
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
print(f"rank {rank} of {world} begins at step {step}", flush=True)
while step < args.steps:
    x = torch.randn(16, 8)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    time.sleep(args.pause)
    if step % 5 == 0 and rank == 0:
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()},
                   os.path.join(args.out, f"model_step{step}.pt"))
print(f"rank {rank} of {world} ends at step {step} with loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
