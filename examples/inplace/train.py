"""Workers that load, augmentation, a scheduler, mixed precision, accumulation, validation after each epoch.

    elastic run --np=1:3 --job-id=x python train.py --pause=0.5      on each node
"""

import argparse
import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import elastic

parser = argparse.ArgumentParser()
parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
pause = parser.parse_args().pause


class Bars(Dataset):
    def __len__(self):
        return 500

    def __getitem__(self, i):
        noise = torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(1000 * state.sampler.epoch + i))
        return 0.3 * noise + nn.functional.one_hot(torch.tensor(i % 8), 8), i % 8


torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 8))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
loss_of = nn.CrossEntropyLoss()
elastic.world(batch_size=48, lr=0.1)
state = elastic.State(model=net, optimizer=opt, sampler=elastic.Sampler(500), save_every=5, losses=[])
x_test, y_test = torch.utils.data.default_collate([Bars()[i] for i in range(100)])


@elastic.train(state)
def loop(world):
    ddp = nn.parallel.DistributedDataParallel(net)
    loader = DataLoader(Bars(), batch_sampler=state.sampler.batch_sampler(), num_workers=1)
    for epoch in state.sampler.epochs(8):
        if epoch > len(state.losses):  # once after each epoch, also if the world changes there
            with torch.no_grad():
                state.losses.append(loss_of(net(x_test), y_test).item())
        for x, y in loader:
            world.set_lr(opt, 0.5 + 0.5 * math.cos(math.pi * state.samples / 4000))
            opt.zero_grad()
            for part, labels, weight in state.sampler.split(x, y):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = loss_of(ddp(part), labels) * weight
                loss.backward()
            opt.step()
            state.end_step(loss=loss)
            time.sleep(pause)
    if world.rank == 0:
        print(f"{state.step} steps: loss {state.losses[-1]:.12g}", flush=True)


loop()
