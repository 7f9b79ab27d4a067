"""A network whose parameters and optimizer state are sharded over all ranks (FSDP), saved by
torch.distributed.checkpoint: each rank writes its shard on the disk of its own node.

    torchrun --nproc-per-node 2 train.py
    elastic run --np=3 --job-id=x --save-from=all python train.py      on each node

The lines that make it elastic end in "# elastic". Everything else is ordinary PyTorch.
"""

import argparse
import os
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import elastic  # elastic

BATCH = 24  # samples of all ranks together: 1, 2, 3 and 4 ranks make the same steps


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def batch(step, rank, size):
    """This rank's samples of a step. All ranks together have the same samples in every world."""
    random = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 16, generator=random)
    y = torch.sin(x.sum(1, keepdim=True))
    return x[rank::size], y[rank::size]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--keep", type=int, default=2, help="saves that stay in the directory")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64 if args.float64 else torch.float32)
    world = elastic.world()  # elastic
    dist.init_process_group("gloo")
    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (world.size,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    directory = os.environ.get("ELASTIC_CHECKPOINT_DIR", "checkpoints")  # elastic
    resume = os.environ.get("ELASTIC_RESUME_FROM")  # elastic

    step = 0
    if resume:
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": torch.tensor(0)}
        dcp.load(state, checkpoint_id=resume)  # each rank reads its part from any shard
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        step = int(state["step"])
    print(f"generation {world.generation} rank {world.rank} of {world.size}: from step {step}", flush=True)

    while step < args.steps:
        x, y = batch(step, world.rank, world.size)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        time.sleep(args.pause)
        elastic.progress(step=step, loss=loss, total_steps=args.steps)  # elastic
        stop = elastic.should_stop()  # elastic
        if step % args.save_every == 0 or step == args.steps or stop:
            weights, moments = get_state_dict(model, optimizer)
            state = {"model": weights, "optimizer": moments, "step": torch.tensor(step)}
            dcp.save(state, checkpoint_id=os.path.join(directory, f"step-{step}"))
            old = os.path.join(directory, f"step-{step - args.keep * args.save_every}")
            if world.local_rank == 0:
                shutil.rmtree(old, ignore_errors=True)
        if stop:
            break

    total = nn.functional.mse_loss(model(batch(0, 0, 1)[0]), batch(0, 0, 1)[1])
    if world.rank == 0:
        print(f"{step} steps: loss {total.item():.15g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
