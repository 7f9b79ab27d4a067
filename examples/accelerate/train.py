"""A small convolutional network learns to tell the direction of stripes, by accelerate.

    python train.py                                                                          alone
    elastic run --np=1:3 --job-id=x --batch-size=24 --scaling=fixed-batch python train.py    on each node
"""

import argparse
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import elastic
import elastic.accelerate


def stripes(n, side=12, classes=4):
    """Noisy images of stripes; the class is their direction. The same on every machine."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (n,), generator=random)
    angle = labels * torch.pi / classes
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    along = x * angle.cos()[:, None, None] + y * angle.sin()[:, None, None]
    phase = torch.rand(n, 1, 1, generator=random) * 6.28
    images = torch.sin(1.5 * along + phase) + 0.5 * torch.randn(n, side, side, generator=random)
    return TensorDataset(images[:, None], labels)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
args = parser.parse_args()

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
world = elastic.world()
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 4))
state, model, optimizer, loader = elastic.accelerate.prepare(
    accelerator, model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
    loader=DataLoader(stripes(500), batch_size=24, num_workers=1), save_every=5)  # fmt: skip
for epoch in state.sampler.epochs(args.epochs):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels) * world.loss_weight
        accelerator.backward(loss)
        optimizer.step()
        time.sleep(args.pause)
        state.end_step(loss=loss)
state.save()

if accelerator.is_main_process:
    images, labels = stripes(500).tensors
    with torch.no_grad():
        loss = nn.functional.cross_entropy(net(images), labels)
    print(f"{state.step} steps: loss {loss.item():.12g}", flush=True)
