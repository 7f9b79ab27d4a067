# Lightning on CPUs with its own ModelCheckpoint: nothing here knows Elastic.
import argparse
import time

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--steps", type=int)
parser.add_argument("--pause", type=float, default=0)
args = parser.parse_args()


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        x, y = batch
        time.sleep(args.pause)
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Report(Callback):
    def on_train_start(self, trainer, _):
        print(f"rank {trainer.global_rank} of {trainer.world_size} begins at step {trainer.global_step}", flush=True)

    def on_train_end(self, trainer, _):
        print(f"rank {trainer.global_rank} of {trainer.world_size} ends at step {trainer.global_step} with loss "
              f"{float(trainer.callback_metrics.get('loss', 0)):.4f}", flush=True)


x = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
trainer = L.Trainer(
    accelerator="cpu", devices=1, num_nodes=2, strategy="ddp", max_steps=args.steps, logger=False,
    enable_progress_bar=False, callbacks=[Report(), ModelCheckpoint(dirpath=args.out, every_n_train_steps=5, save_last=True)])
trainer.fit(Model(), DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16), ckpt_path="last")
