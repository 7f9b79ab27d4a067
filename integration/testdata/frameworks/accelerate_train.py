# A loop with Hugging Face accelerate on CPUs, with its own save_state: nothing here knows Elastic.
import argparse
import glob
import os
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--steps", type=int)
parser.add_argument("--pause", type=float, default=0)
args = parser.parse_args()

accelerator = Accelerator(cpu=True)
rank, world = accelerator.process_index, accelerator.num_processes
torch.manual_seed(0)
x = torch.randn(256, 8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
step = max((int(d.rsplit("_", 1)[1]) for d in glob.glob(os.path.join(args.out, "step_*"))), default=0)
if step:
    accelerator.load_state(os.path.join(args.out, f"step_{step}"))
print(f"rank {rank} of {world} begins at step {step}", flush=True)
while step < args.steps:
    for inputs, wanted in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        step += 1
        time.sleep(args.pause)
        if step % 5 == 0:
            accelerator.save_state(os.path.join(args.out, f"step_{step}"))
        if step == args.steps:
            break
print(f"rank {rank} of {world} ends at step {step} with loss {loss.item():.4f}", flush=True)
accelerator.end_training()
