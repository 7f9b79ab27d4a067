# Plain DDP on CPUs, as the tutorials of PyTorch write it: nothing here knows Elastic.
import argparse
import os
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
path, step = os.path.join(args.out, "model.pt"), 0
if os.path.exists(path):
    saved = torch.load(path, weights_only=True)
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
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
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)
print(f"rank {rank} of {world} ends at step {step} with loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
