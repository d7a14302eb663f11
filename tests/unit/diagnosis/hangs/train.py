# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the ranks that record.py looks at: a few steps, then the hang of a case."""

import datetime
import os
import sys
import time
import traceback

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])


def step():
    dist.all_reduce(torch.ones(4))


def evaluate():
    while True:
        sum(range(1000))


def alone():
    """One rank is in a collective, and the others compute on."""
    if RANK == 2:
        dist.all_reduce(torch.ones(4))
    evaluate()


def ended():
    """One rank makes a group that the others would have to join, but they have ended."""
    if RANK == 0:
        dist.new_group([0, 1])


def subgroup():
    """One member of a group goes on without its second collective, to one of all ranks; the other one waits in it."""
    first, second = dist.new_group([0, 1]), dist.new_group([2, 3])
    for batch in range(2):
        if RANK != 1 or batch == 0:
            dist.all_reduce(torch.ones(4), group=first if RANK < 2 else second)
    step()


def late():
    """One member of a group computes; the other one waits in it, and those of the other group wait for both."""
    first, second = dist.new_group([0, 1]), dist.new_group([2, 3])
    if RANK == 1:
        evaluate()
    dist.all_reduce(torch.ones(4), group=first if RANK < 2 else second)
    step()


def read_batch(seconds):
    time.sleep(seconds)


def slow():
    """The steps of one rank take 1.5 times as long as those of the others."""
    while True:
        time.sleep(0.4)
        if RANK == 2:
            read_batch(0.2)
        step()


def connect():
    """A rank that tries to reach a first rank that is not there, again and again."""
    for attempt in range(4):
        try:
            dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
        except dist.DistError:
            print(f"attempt {attempt} failed", flush=True)
            traceback.print_exc()


def main():
    if sys.argv[1] == "connect":
        connect()
        return
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for _step in range(5):
        step()
    with open(os.path.join(os.path.dirname(__file__), f"begun-{RANK}"), "w", encoding="ascii"):
        pass
    {"alone": alone, "ended": ended, "subgroup": subgroup, "late": late, "slow": slow}[sys.argv[1]]()


main()
