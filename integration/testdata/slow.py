"""Ranks that train with DistributedDataParallel over gloo. Rank SLOW takes 30 ms more of each step than the others
before its backward; -1: no rank does."""
import os, time

import elastic
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, slow = dist.get_rank(), int(os.environ["SLOW"])
net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 1))
ddp = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(1, 100000):
    time.sleep(0.05 if rank == slow else 0.02)
    optimizer.zero_grad()
    ddp(torch.ones(4, 16)).sum().backward()
    optimizer.step()
    elastic.progress(step=step)
