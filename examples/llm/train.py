"""A language model: the loss is the mean over the tokens of the global batch, in every world.

    elastic run --np=1:3 --job-id=x --batch-size=24 --scaling=fixed-batch python train.py --pause=0.1
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn

import elastic

parser = argparse.ArgumentParser()
parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
pause = parser.parse_args().pause


class Causal(nn.TransformerEncoderLayer):
    def forward(self, x):
        return super().forward(x, src_mask=torch.full((15, 15), float("-inf")).triu(1))


def texts(indices):
    """Texts that count up, of 4 to 15 words; -100 is after their end."""
    begins = torch.tensor(indices)[:, None]
    rows = (torch.arange(16) + begins) % 64
    return rows[:, :-1], rows[:, 1:].masked_fill(torch.arange(15) >= 4 + begins % 12, -100)


torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
elastic.world(batch_size=24)
net = nn.Sequential(nn.Embedding(64, 32), Causal(32, 2, 64, dropout=0, batch_first=True), nn.Linear(32, 64))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
state = elastic.State(model=net, optimizer=opt, sampler=elastic.Sampler(500), save_every=5)


@elastic.train(state)
def loop(world):
    ddp = nn.parallel.DistributedDataParallel(net)
    for epoch in state.sampler.epochs(4):
        for indices in state.sampler:
            x, y = texts(indices or [0])
            tokens = (y != -100).sum() * bool(indices)
            dist.all_reduce(tokens)  # texts have different lengths
            opt.zero_grad()
            loss = nn.functional.cross_entropy(ddp(x).transpose(1, 2), y, reduction="sum") * bool(indices) / tokens
            (loss * world.size).backward()  # DDP takes the mean of the ranks
            opt.step()
            state.end_step(loss=loss)
            time.sleep(pause)
    if world.rank == 0:
        x, y = texts(range(100))
        print(f"{state.step} steps: loss {nn.functional.cross_entropy(net(x).transpose(1, 2), y).item():.12g}", flush=True)


loop()
