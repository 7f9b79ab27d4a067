"""A small convolutional network learns to tell the direction of stripes.

    python train.py                                    alone
    python -m paddle.distributed.launch --nproc_per_node 2 train.py
    elastic run --np=2 --job-id=x python train.py      on each node, or twice on one machine

The lines that make it elastic end in "# elastic". Everything else is ordinary Paddle.
"""

import argparse
import os
import time

import numpy
import paddle
from paddle import nn
from paddle.distributed import fleet

import elastic  # elastic


def stripes(n, side=12, classes=4):
    """Noisy images of stripes; the class is their direction. The same on every machine."""
    random = numpy.random.default_rng(0)
    labels = random.integers(classes, size=n)
    angle = labels * numpy.pi / classes
    y, x = numpy.mgrid[:side, :side]
    along = x * numpy.cos(angle)[:, None, None] + y * numpy.sin(angle)[:, None, None]
    phase = random.random((n, 1, 1)) * 6.28
    images = numpy.sin(1.5 * along + phase) + 0.5 * random.standard_normal((n, side, side))
    return images[:, None], labels


def network():
    paddle.seed(0)
    return nn.Sequential(
        nn.Conv2D(1, 8, 3), nn.ReLU(), nn.MaxPool2D(2), nn.Conv2D(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--save-every", default="2s")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
    args = parser.parse_args()

    dtype = "float64" if args.float64 else "float32"
    paddle.set_default_dtype(dtype)
    world = elastic.world(batch_size=50, lr=0.05)  # elastic
    if world.size > 1:
        os.environ.setdefault("PADDLE_DISTRI_BACKEND", "gloo")
        fleet.init(is_collective=True)
    images, labels = stripes(args.samples)
    images, labels = paddle.to_tensor(images.astype(dtype)), paddle.to_tensor(labels)
    net = network()
    optimizer = paddle.optimizer.Momentum(learning_rate=world.lr, momentum=0.9, parameters=net.parameters())
    loss_function = nn.CrossEntropyLoss()
    sampler = elastic.Sampler(len(images), seed=0)  # elastic
    state = elastic.State(model=net, optimizer=optimizer, sampler=sampler, save_every=args.save_every)  # elastic
    state.load()  # elastic
    model = fleet.distributed_model(net) if world.size > 1 else net

    for epoch in sampler.epochs(args.epochs):  # elastic
        for indices in sampler:  # elastic
            world.set_lr(optimizer)  # elastic
            mine = indices or [0]  # Paddle takes no empty batch; its weight is 0
            loss = loss_function(model(images[mine]), labels[mine]) * world.loss_weight  # elastic
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            time.sleep(args.pause)
            state.end_step(loss=loss.item())  # elastic
    state.save()  # elastic

    if world.rank == 0:
        with paddle.no_grad():
            outputs = net(images)
            right = (outputs.argmax(1) == labels).astype("float32").mean().item()
            print(f"{state.step} steps: loss {loss_function(outputs, labels).item():.12g}, accuracy {right:.1%}")


if __name__ == "__main__":
    main()
