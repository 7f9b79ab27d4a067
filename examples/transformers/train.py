"""A small GPT-2, made from a config, learns to count; Transformers' Trainer, at any number of nodes.

    elastic run --np=1:3 --job-id=x --batch-size=24 --scaling=fixed-batch python train.py      on each node
"""

import argparse
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import elastic
import elastic.hf


class Counting(torch.utils.data.Dataset):
    """Rows that count up from somewhere, of different lengths: the rest has no loss."""

    def __len__(self):
        return 200

    def __getitem__(self, i):
        row = (torch.arange(16) + i) % 64
        labels = row.clone()
        labels[8 + i % 8 :] = -100
        return {"input_ids": row, "labels": labels}


class Pause(TrainerCallback):
    def on_step_end(self, *_, **__):
        time.sleep(args.pause)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=7)
parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
                                   resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))  # fmt: skip
options = TrainingArguments(
    output_dir="checkpoints", num_train_epochs=args.epochs, per_device_train_batch_size=24, save_steps=5, logging_steps=5,
    learning_rate=3e-3, use_cpu=True, report_to=[], disable_tqdm=True)  # fmt: skip
trainer = Trainer(model=model, args=options, train_dataset=Counting(), callbacks=[Pause()])
elastic.hf.attach(trainer)
trainer.train()

if elastic.world().rank == 0:
    rows = torch.utils.data.default_collate([Counting()[i] for i in range(100)])
    with torch.no_grad():
        loss = model.eval()(**rows).loss
    print(f"{trainer.state.global_step} steps: loss {loss.item():.12g}", flush=True)
