"""Runs the parts of `make gpu`, on a machine that needs torch alone: neither a network nor Go.

    python run.py [--dry] [--quick] [--parts=abcde] [--limit=480] [--bin=DIR]

A part that takes longer than its limit is ended with its processes, and its table is printed as far as it came.

--dry: on processors with gloo, also where there is a GPU. Without CUDA every run is dry.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import time

import torch
from nodes import HERE, Failed, Over
from parts import Part

PARTS = {
    "a": ("three ranks: kill, join, crash, freeze", Part.changes),
    "b": ("hangs of ten kinds", Part.hangs),
    "c": ("a checkpoint from the device", Part.saves),
    "d": ("beside torchrun", Part.torchrun),
    "e": ("a language model with kills", Part.llm),
}
DRY = "dry: CPU and gloo, no GPU"


def machine(dry):
    """What the figures hold for."""
    if dry:
        return f"{DRY}; torch {torch.__version__}, {os.cpu_count()} processors"
    names = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True).stdout.split("\n")[0]
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return f"{torch.cuda.device_count()} x {', '.join(sorted(names))}, driver {driver}, torch {torch.__version__}, NCCL {nccl}"


def show(title, part, took):
    print(f"\n{title} ({took:.0f} s)")
    widths = [max(map(len, column)) for column in zip(*part.rows)]
    for row in part.rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for check in part.checks:
        print(f"  checked: {check}", flush=True)


def over(*_):
    raise Over


def play(title, part, how, limit):
    """Play a part, and print its table. Return whether it came to its end."""
    began, why = time.monotonic(), None
    signal.signal(signal.SIGALRM, over)
    signal.alarm(limit)
    try:
        how(part)
    except Failed as error:
        why = f"FAILED: {error}"
    except Over:
        why = f"stopped after {limit // 60} min" if limit >= 60 else f"stopped after {limit} s"
    finally:
        signal.alarm(0)
        part.end()
    show(title, part, time.monotonic() - began)
    if why is not None:
        print(f"  {why}", flush=True)
    return why is None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the first row of each table alone")
    parser.add_argument("--parts", default="abcde")
    parser.add_argument("--limit", type=int, default=480, help="seconds that a part may take")
    parser.add_argument("--bin", default=HERE, help="where elastic and elasticd are")
    options = parser.parse_args()
    dry = options.dry or not torch.cuda.is_available()
    if dry:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    print(f"{machine(dry)}; {platform.node()}, {time.strftime('%F')}", flush=True)
    cards = 0 if dry else torch.cuda.device_count()
    whole = True
    for letter in options.parts:
        title, how = PARTS[letter]
        part = Part(os.path.abspath(options.bin), cards, options.quick)
        whole &= play(f"({letter}) {title}" + (f" [{DRY}]" if dry else ""), part, how, options.limit)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
