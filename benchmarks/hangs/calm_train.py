# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the ranks of a calm run: it trains, evaluates and saves, and nothing is wrong with it.

Usage: calm_train.py JSON, a `Calm` of calm.py.
"""

import json
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

HOW = json.loads(sys.argv[1])


def say(text, seconds):
    """Print a line of rank 0, with the times that this run prints."""
    if dist.get_rank() == 0:
        if HOW["times"] == "stamps":
            text = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}"
        elif HOW["times"] == "stated":
            text = f"{text} ({1000 * seconds:.0f} ms)"
        print(text, flush=True)


def compute(seconds):
    """Silent, and of little of a CPU: several runs share the machine's."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.ones(64, 64) @ torch.ones(64, 64)
        time.sleep(0.02)


def evaluate(seconds):
    """By all ranks, or by the first while the others wait for it."""
    if dist.get_rank() == 0 or HOW["by"] == "all":
        compute(seconds)
    dist.barrier()


def save_checkpoint(seconds):
    if dist.get_rank() == 0 or HOW["by"] == "all":
        compute(seconds)
    dist.barrier()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    chance = random.Random(dist.get_rank())
    began, step = time.monotonic(), 0
    while True:
        before, step = time.monotonic(), step + 1
        time.sleep(HOW["compiles"] if step == 1 else HOW["seconds"] * chance.uniform(0.9, 1.1))
        loss = model(torch.ones(8, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % HOW["every"] == 0:
            say(f"step {step}/100000 loss {loss.item():.4f}", time.monotonic() - before)
        if step % HOW["evaluates"] == 0:
            evaluate(HOW["evaluation"])
        if step % HOW["saves"] == 0:
            save_checkpoint(HOW["checkpoint"])
            if dist.get_rank() == 0:
                print("checkpoint saved", flush=True)
        over = torch.tensor([float(time.monotonic() - began > HOW["lasts"])])
        dist.all_reduce(over, dist.ReduceOp.MAX)
        if over.item():
            break
    dist.destroy_process_group()


main()
