# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One provoked failure: how it is started, what fault is inserted, and which log line an expert would name as root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

HEALTHY = "healthy"


@dataclass(frozen=True)
class Case:
    """`root`: a regular expression; the first log line that matches is the cause. It is written before any log is
    diagnosed. `also`: families that an expert would accept too. `alike`: lines that are as good as the root.

    `style` is how a user would have started it:
    torchrun (one srun task per node), srun (one task per rank), label (the same with --label),
    files (one log per rank), batch (`program` is the batch script's body),
    head (`program` is a script on the login node, before any job).
    """

    name: str
    family: str
    root: str
    program: str
    style: str = "srun"
    nodes: int = 1
    ranks: int = 2
    also: tuple[str, ...] = ()
    alike: str = ""
    header: tuple[str, ...] = ()
    before: str = ""
    env: dict[str, str] = field(default_factory=dict)
    site: bool = False
    act: Callable[[Any, str, list[str]], None] | None = None
    #: The text in the log for which `act` waits before it breaks something.
    when: str = ""
    faked: str = ""
    files: dict[str, str] = field(default_factory=dict)


#: A small trainer as users write them. {setup} is at the top of main(), {fault} inside the step.
_TRAINER = """import argparse
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
{imports}

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Linear(16, width)
        self.second = nn.Linear(width, 16)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def train_step(model, optimizer, batch, step):
    optimizer.zero_grad()
    loss = ((model(batch) - batch) ** 2).mean()
{fault}
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={timeout}))
    torch.manual_seed(0)
    model = DDP(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
{setup}
    if rank == 0:
        print(f"training on {{world}} ranks", flush=True)
    for step in range(1, {steps} + 1):
        began = time.time()
        loss = train_step(model, optimizer, torch.randn(8, 16), step)
        if rank == 0:
            print(f"step {{step}}/{steps} loss {{loss:.4f}} ({{1000 * (time.time() - began):.1f}} ms)", flush=True)
{after}
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


def trainer(
    fault: str = "", *, setup: str = "", imports: str = "", after: str = "", steps: int = 12, timeout: int = 20
) -> str:
    """The trainer with a fault inserted. The result is a program that somebody could have written."""
    return _TRAINER.format(
        imports=imports,
        fault=_indented(fault),
        setup=_indented(setup),
        after=_indented(after),
        steps=steps,
        timeout=timeout,
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.strip("\n").split("\n")) if text else ""
