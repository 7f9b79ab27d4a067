"""A small ResNet under torchrun, as such scripts usually are: what a lost node costs is in ../torch/README.md.

    torchrun --nproc-per-node 2 before.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from model import ResNet, pictures
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
args = parser.parse_args()

dist.init_process_group("gloo")
torch.manual_seed(0)
net = ResNet()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
if os.path.exists("resnet.pt"):
    net.load_state_dict(torch.load("resnet.pt"))

data = pictures(400)
sampler = DistributedSampler(data, seed=0)
ddp = DistributedDataParallel(net)
for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=16, sampler=sampler):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(ddp(x), y)
        loss.backward()
        opt.step()
    scheduler.step()
    if dist.get_rank() == 0:
        torch.save(net.state_dict(), "resnet.pt")

if dist.get_rank() == 0:
    with torch.no_grad():
        x, y = data.tensors
        print(f"loss {nn.functional.cross_entropy(net(x), y).item():.12g}")
