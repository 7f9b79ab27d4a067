"""A small convolutional network learns to tell the direction of stripes.

    python train.py                                    alone
    torchrun --nproc-per-node 2 train.py               under torchrun
    elastic run --np=2 --job-id=x python train.py      on each node, or twice on one machine

The lines that make it elastic end in "# elastic". Everything else is ordinary PyTorch.
"""

import argparse
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import elastic  # elastic


def stripes(n, side=12, classes=4):
    """Noisy images of stripes; the class is their direction. The same on every machine."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (n,), generator=random)
    angle = labels * torch.pi / classes
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    along = x * angle.cos()[:, None, None] + y * angle.sin()[:, None, None]
    phase = torch.rand(n, 1, 1, generator=random) * 6.28
    images = torch.sin(1.5 * along + phase) + 0.5 * torch.randn(n, side, side, generator=random)
    return images[:, None], labels


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--save-every", default="2s")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64 if args.float64 else torch.float32)
    world = elastic.world(batch_size=50, lr=0.05)  # elastic
    if world.size > 1:
        torch.distributed.init_process_group("gloo")
    images, labels = stripes(args.samples)
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=world.lr, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    sampler = elastic.Sampler(len(images), seed=0)  # elastic
    state = elastic.State(model=net, optimizer=optimizer, sampler=sampler, save_every=args.save_every)  # elastic
    state.load()  # elastic
    model = DistributedDataParallel(net) if world.size > 1 else net

    for epoch in sampler.epochs(args.epochs):  # elastic
        for indices in sampler:  # elastic
            world.set_lr(optimizer)  # elastic
            optimizer.zero_grad()
            total = 0.0
            for part, weight in sampler.split(indices):  # elastic
                loss = loss_function(model(images[part]), labels[part]) * weight
                loss.backward()
                total += loss.item() if part else 0.0
            optimizer.step()
            time.sleep(args.pause)
            state.end_step(loss=total)  # elastic
    state.save()  # elastic

    if world.rank == 0:
        with torch.no_grad():
            outputs = net(images)
        right = (outputs.argmax(1) == labels).float().mean().item()
        print(f"{state.step} steps: loss {loss_function(outputs, labels).item():.12g}, accuracy {right:.1%}")
    if world.size > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
