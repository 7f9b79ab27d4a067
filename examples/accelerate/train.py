"""A small convolutional network learns to tell the direction of stripes, by accelerate.

    python train.py                                    alone
    accelerate launch --cpu --num_processes 2 train.py
    elastic run --np=2 --job-id=x python train.py      on each node, or twice on one machine

The lines that make it elastic end in "# elastic". Everything else is ordinary accelerate.
"""

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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
    return TensorDataset(images[:, None], labels)


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, default=2000)
    args = parser.parse_args()

    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    world = elastic.world(batch_size=50, lr=0.05)  # elastic
    data, net = stripes(args.samples), network()
    optimizer = torch.optim.SGD(net.parameters(), lr=world.lr, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    sampler = elastic.Sampler(len(data), seed=0)  # elastic
    state = elastic.State(model=net, optimizer=optimizer, sampler=sampler, save_every="2s")  # elastic
    state.load()  # elastic
    # prepare() must not get the loader: it would split the samples of each rank again.
    loader = DataLoader(data, batch_sampler=sampler.batch_sampler())  # elastic
    model, prepared = accelerator.prepare(net, optimizer)

    for epoch in sampler.epochs(args.epochs):  # elastic
        for images, labels in loader:
            world.set_lr(optimizer)  # elastic
            prepared.zero_grad()
            loss = loss_function(model(images), labels) * world.loss_weight  # elastic
            accelerator.backward(loss)
            prepared.step()
            state.commit(loss=loss)  # elastic
    state.save()  # elastic

    if accelerator.is_main_process:
        images, labels = data.tensors
        with torch.no_grad():
            outputs = net(images)
        right = (outputs.argmax(1) == labels).float().mean().item()
        print(f"{state.step} steps: loss {loss_function(outputs, labels).item():.12g}, accuracy {right:.1%}")


if __name__ == "__main__":
    main()
