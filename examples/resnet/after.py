"""The same ResNet as in before.py, at any number of nodes; the processes stay when a node is lost or comes.

    elastic run --np=1:3 --job-id=x --batch-size=48 --lr=0.05 --scaling=fixed-batch python after.py --pause=0.1
"""

import argparse
import math
import time

import torch
from model import ResNet, pictures
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import elastic

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
net = ResNet()
elastic.world(batch_size=48, lr=0.05)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
data = pictures(400)
state = elastic.State(model=net, optimizer=opt, sampler=elastic.Sampler(len(data), seed=0), save_every=5)


@elastic.train(state)
def loop(world):
    ddp = DistributedDataParallel(net)
    loader = DataLoader(data, batch_sampler=state.sampler.batch_sampler())
    for epoch in state.sampler.epochs(args.epochs):
        for x, y in loader:
            world.set_lr(opt, 0.5 + 0.5 * math.cos(math.pi * epoch / args.epochs))
            opt.zero_grad()
            loss = nn.functional.cross_entropy(ddp(x), y) * world.loss_weight
            loss.backward()
            opt.step()
            state.end_step(loss=loss)
            time.sleep(args.pause)
    with torch.no_grad():
        x, y = data.tensors
        loss = nn.functional.cross_entropy(net(x), y).item()
    if world.rank == 0:
        print(f"{state.step} steps: loss {loss:.12g}", flush=True)


loop()
