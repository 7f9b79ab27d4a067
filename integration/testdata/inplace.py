# A script as people have them: DDP over gloo, one file saved in place, nothing of Elastic in it but the
# directory that it saves to.
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
path = os.path.join(os.environ.get("ELASTIC_CHECKPOINT_DIR", "."), "model.pt")
step = 0
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    step = saved["step"]
ddp = DistributedDataParallel(model)
print(f"start step={step} world={world} rank={rank}", flush=True)
while step < 300:
    x = torch.randn(32, 10)
    loss = ((ddp(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if rank == 0 and step % 20 == 0:
        torch.save({"model": model.state_dict(), "step": step}, path)
    time.sleep(0.03)
print(f"finished step={step}", flush=True)
