# torch.distributed.checkpoint, as its documents write it: nothing here knows Elastic. With --background the
# save goes on while training does.
import argparse
import glob
import os
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--steps", type=int)
parser.add_argument("--pause", type=float, default=0)
parser.add_argument("--background", action="store_true")
args = parser.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
group = dist.new_group(backend="gloo")  # a save in the background has messages of its own
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
saves = glob.glob(os.path.join(args.out, "step*", ".metadata"))
step = max((int(os.path.basename(os.path.dirname(s))[4:]) for s in saves), default=0)
if step:
    state = {"model": model.module.state_dict()}
    dcp.load(state, checkpoint_id=os.path.join(args.out, f"step{step}"))
    model.module.load_state_dict(state["model"])
print(f"rank {rank} of {world} begins at step {step}", flush=True)
pending = None
while step < args.steps:
    x = torch.randn(16, 8)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    time.sleep(args.pause)
    if step % 5 == 0:
        if pending:
            pending.result()
        save = dcp.async_save if args.background else dcp.save
        pending = save({"model": model.module.state_dict()}, process_group=group,
                       checkpoint_id=os.path.join(args.out, f"step{step}"))
        if not args.background:
            pending = None
if pending:
    pending.result()
print(f"rank {rank} of {world} ends at step {step} with loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
