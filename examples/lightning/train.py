"""A small network learns the sum of its inputs; Lightning's Trainer, at any number of nodes.

    elastic run --np=1:3 --job-id=x --batch-size=24 --scaling=fixed-batch python train.py      on each node
"""

import argparse
import time

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import elastic
import elastic.lightning

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
args = parser.parse_args()


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch, _):
        x, y = batch
        time.sleep(args.pause)
        return nn.functional.mse_loss(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
model = Model()
x = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
y = x.sum(1, keepdim=True)
trainer = L.Trainer(
    accelerator="cpu", devices=1, num_nodes=elastic.world().size, strategy="ddp", max_epochs=args.epochs, precision="64-true",
    logger=False, enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False)  # fmt: skip
elastic.lightning.fit(trainer, model, DataLoader(TensorDataset(x, y), batch_size=24), save_every=5)

if trainer.global_rank == 0:
    with torch.no_grad():
        loss = nn.functional.mse_loss(model.net(x), y)
    print(f"{trainer.global_step} steps: loss {loss.item():.12g}", flush=True)
