"""Runs the parts of `make gpu`, on a machine that needs torch alone: neither a network nor Go.

    python run.py [--dry] [--quick] [--parts=abcde] [--bin=DIR]

--dry: on processors with gloo, also where there is a GPU. Without CUDA every run is dry.
"""

import argparse
import os
import platform
import subprocess
import sys
import time

import torch
from nodes import HERE, Failed
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


def show(title, rows, checks, took):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print(f"\n{title} ({took:.0f} s)")
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for check in checks:
        print(f"  checked: {check}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the first row of each table alone")
    parser.add_argument("--parts", default="abcde")
    parser.add_argument("--bin", default=HERE, help="where elastic and elasticd are")
    options = parser.parse_args()
    dry = options.dry or not torch.cuda.is_available()
    if dry:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    print(f"{machine(dry)}; {platform.node()}, {time.strftime('%F')}", flush=True)
    part = Part(os.path.abspath(options.bin), 0 if dry else torch.cuda.device_count(), options.quick)
    failed = 0
    for letter in options.parts:
        title, play = PARTS[letter]
        title, began = f"({letter}) {title}" + (f" [{DRY}]" if dry else ""), time.monotonic()
        try:
            rows, checks = play(part)
            show(title, rows, checks, time.monotonic() - began)
        except Failed as error:
            failed += 1
            print(f"\n{title}\n  FAILED: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
