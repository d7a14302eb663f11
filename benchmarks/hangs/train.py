# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the ranks: it trains, and stands still in the way of each case until the benchmark releases it.

Usage: train.py FOLDER. FOLDER/cases.json: the cases, in order. A case begins with begun.N and ends with release.N.
"""

import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FOLDER = sys.argv[1]
RANK = int(os.environ["RANK"])
# Steps between two cases, and seconds until a group with a wrong collective gives up.
BETWEEN, PATIENCE = 25, 40
# Seconds that a late rank takes in addition for a step.
LATE = 0.5
# Numbers in a tensor that a slow link cannot carry while the benchmark looks.
LARGE = 1_000_000


def there(name):
    return os.path.exists(os.path.join(FOLDER, name))


def create(name):
    with open(os.path.join(FOLDER, name), "w", encoding="ascii"):
        pass


def wait_for(name):
    while not there(name):
        time.sleep(0.2)


def in_sleep(number):
    for _minute in range(60):
        time.sleep(0.2 if there(f"release.{number}") else 15)
        if there(f"release.{number}"):
            return


def in_lock(number):
    """Two threads take two locks in opposite order; another one ends it."""
    first, second = threading.Lock(), threading.Lock()
    first.acquire()

    def other():
        with second:
            wait_for(f"release.{number}")
            first.release()

    threading.Thread(target=other, daemon=True).start()
    time.sleep(0.2)
    second.acquire()


def in_pipe(number):
    reader, writer = os.pipe()

    def feed():
        wait_for(f"release.{number}")
        os.write(writer, b"x")

    threading.Thread(target=feed, daemon=True).start()
    os.read(reader, 1)


def in_disk(number):
    """In the state of a process whose file system does not answer (D): its child blocks before it has started."""
    path = os.path.join(FOLDER, f"fifo.{number}")
    os.mkfifo(path)
    releasing = f"until [ -e {FOLDER}/release.{number} ]; do sleep 0.2; done; : > {path}"
    with subprocess.Popen(["sh", "-c", releasing], env={"PATH": os.environ["PATH"]}):
        child = os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, path, os.O_RDONLY, 0)])
        os.waitpid(child, 0)


def in_loop(number):
    total = 0
    while total % 100_000 or not there(f"release.{number}"):
        total += 1


def in_stop(number):
    releasing = f"until [ -e {FOLDER}/release.{number} ]; do sleep 0.2; done; kill -CONT {os.getpid()}"
    with subprocess.Popen(["sh", "-c", releasing], env={"PATH": os.environ["PATH"]}):
        os.kill(os.getpid(), signal.SIGSTOP)


class Slow(Dataset):
    """Data whose third element is late."""

    def __init__(self, number):
        self.number = number

    def __len__(self):
        return 4

    def __getitem__(self, place):
        if place == 2:
            wait_for(f"release.{self.number}")
        return torch.ones(1)


def in_loader(number):
    for _batch in DataLoader(Slow(number), num_workers=1, multiprocessing_context="fork"):
        pass


WAYS = {
    "sleep": in_sleep, "lock": in_lock, "pipe": in_pipe, "disk": in_disk, "loop": in_loop, "stop": in_stop,
    "loader": in_loader, "node": in_loop,
}  # fmt: skip


def between_ranks(case, number, group):
    """The cases in which no rank is at fault alone: other collectives than the others, or a link."""
    culprit = RANK in case["ranks"]
    with contextlib.suppress(RuntimeError):
        if case["kind"] == "mismatch":
            if culprit:
                dist.all_gather([torch.ones(8) for _rank in range(dist.get_world_size())], torch.ones(8), group=group)
            else:
                dist.all_reduce(torch.ones(8), group=group)
        elif case["kind"] == "batches":
            for _batch in range(3 if culprit else 5):
                dist.all_reduce(torch.ones(8), group=group)
            dist.barrier(group=group)
        else:
            wait_for(f"go.{number}")
            dist.all_reduce(torch.ones(LARGE), group=group)


def step(number, late=0.0, over=False):
    """One step; whether `over` on any rank. `late`: the seconds that this rank takes in addition."""
    began = time.monotonic()
    time.sleep(0.05 + late)
    ended = torch.tensor([float(over)])
    dist.all_reduce(ended)
    print(f"step {number} loss 0.5 ({1000 * (time.monotonic() - began):.0f} ms)", flush=True)
    return bool(ended.item())


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with open(os.path.join(FOLDER, "cases.json"), encoding="utf-8") as stream:
        cases = json.load(stream)
    count = 0
    for number, case in enumerate(cases):
        for _step in range(BETWEEN):
            count += 1
            step(count)
        own = case["kind"] not in WAYS and case["kind"] not in ("gone", "slow")
        # Of a link, the time is limited by the benchmark.
        patience = datetime.timedelta(seconds=600 if case["kind"] == "link" else PATIENCE)
        group = dist.new_group(timeout=patience) if own else None
        if case["ranks"][0] == RANK:
            create(f"begun.{number}")
        if own:
            between_ranks(case, number, group)
            wait_for(f"release.{number}")
        elif case["kind"] == "slow":
            count += 1
            while not step(count, LATE if RANK in case["ranks"] else 0.0, there(f"release.{number}")):
                count += 1
        elif case["kind"] == "gone":
            wait_for(f"go.{number}")
        elif RANK in case["ranks"]:
            WAYS[case["kind"]](number)
    for _step in range(BETWEEN):
        count += 1
        step(count)
    if RANK == 0:
        create("done")


main()
