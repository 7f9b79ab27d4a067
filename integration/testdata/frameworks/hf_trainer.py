# The Trainer of transformers with its own checkpoints: nothing here knows Elastic.
import argparse
import os
import time

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--steps", type=int)
parser.add_argument("--pause", type=float, default=0)
args = parser.parse_args()
rank, world = os.environ["RANK"], os.environ["WORLD_SIZE"]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.last = 0.0

    def forward(self, x, labels=None):
        loss = ((self.layer(x) - labels) ** 2).mean()
        self.last = loss.item()
        return {"loss": loss}


class Report(TrainerCallback):
    def on_train_begin(self, _, state, control, **__):
        print(f"rank {rank} of {world} begins at step {state.global_step}", flush=True)

    def on_step_end(self, *_, **__):
        time.sleep(args.pause)


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(1024, 8, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.x[i].sum().reshape(1)}


torch.manual_seed(0)
model = Model()
trainer = Trainer(
    model=model, train_dataset=Data(), callbacks=[Report()],
    args=TrainingArguments(output_dir=args.out, max_steps=args.steps, save_steps=5, use_cpu=True, optim="sgd",
                           learning_rate=0.05, max_grad_norm=0.0, lr_scheduler_type="constant",
                           per_device_train_batch_size=16, report_to=[], disable_tqdm=True, ddp_backend="gloo"))
trainer.train(resume_from_checkpoint=get_last_checkpoint(args.out))
print(f"rank {rank} of {world} ends at step {trainer.state.global_step} with loss {model.last:.4f}", flush=True)
