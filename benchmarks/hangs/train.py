# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the ranks: it trains, and stands still in the way of each case until the benchmark releases it.

Usage: train.py FOLDER. FOLDER/launch.json: how the ranks work together, and the cases, in order. A case begins with
begun.N and ends with release.N.
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
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

FOLDER = sys.argv[1]
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with open(os.path.join(FOLDER, "launch.json"), encoding="utf-8") as stream:
    LAUNCH = json.load(stream)
# Steps between two cases, seconds of one, and until a group with a wrong collective gives up.
BETWEEN, SECONDS, PATIENCE = 25, 0.4, 400
# Steps before a rank becomes slow: the wait has to know their usual time by then.
USUAL = 300
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


def before_all(number):
    while not there(f"release.{number}"):
        time.sleep(5)


def first_batch(number):
    while not there(f"release.{number}"):
        time.sleep(5)


def after_all(number):
    """Waits for a thread that uploads, while the other ranks have ended."""
    uploader = threading.Thread(target=wait_for, args=(f"release.{number}",))
    uploader.start()
    uploader.join()


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
    "first": first_batch, "sleep": in_sleep, "lock": in_lock, "pipe": in_pipe, "disk": in_disk, "loop": in_loop,
    "stop": in_stop, "loader": in_loader, "node": in_loop,
}  # fmt: skip


def between_ranks(case, number, group):
    """The cases in which no rank is at fault alone: other collectives than the others, or a link."""
    culprit = RANK in case["ranks"]
    with contextlib.suppress(RuntimeError):
        if case["kind"] == "mismatch":
            if culprit:
                dist.all_gather([torch.ones(8) for _rank in range(WORLD)], torch.ones(8), group=group)
            else:
                dist.all_reduce(torch.ones(8), group=group)
        elif case["kind"] == "batches":
            for _batch in range(3 if culprit else 5):
                dist.all_reduce(torch.ones(8), group=group)
            dist.barrier(group=group)
        else:
            wait_for(f"go.{number}")
            dist.all_reduce(torch.ones(LARGE), group=group)


class Work:
    """What the ranks do together in a step."""

    def __init__(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
        if LAUNCH["how"] == "ddp":
            self.model = DistributedDataParallel(self.model)
        elif LAUNCH["how"] == "fsdp":
            fully_shard(self.model)

    def together(self):
        if LAUNCH["how"] == "direct":
            dist.all_reduce(torch.ones(64))
        elif LAUNCH["how"] == "pipeline":
            # Forward from the first rank to the last, and back.
            batch = torch.ones(64)
            for before, after in ((RANK - 1, RANK + 1), (RANK + 1, RANK - 1)):
                if 0 <= before < WORLD:
                    dist.recv(batch, before)
                if 0 <= after < WORLD:
                    dist.send(batch, after)
        else:
            self.model(torch.ones(8, 64)).square().mean().backward()


def late_data(seconds):
    time.sleep(seconds)


class Steps:
    """The steps of this rank, counted and printed by the first."""

    def __init__(self):
        self.work, self.count = Work(), 0

    def step(self, late=0.0, over=False):
        """One step; whether `over` on any rank. `late`: the seconds that this rank takes in addition."""
        self.count += 1
        began = time.monotonic()
        time.sleep(SECONDS)
        if late:
            late_data(late)
        self.work.together()
        ended = torch.tensor([float(over)])
        if LAUNCH["how"] != "pipeline":
            dist.all_reduce(ended)
        if RANK == 0:
            took = f" ({1000 * (time.monotonic() - began):.0f} ms)" if LAUNCH["times"] else ""
            print(f"step {self.count}/9000 loss 0.5{took}", flush=True)
        return bool(ended.item())

    def several(self, count):
        for _step in range(count):
            self.step()


def play(case, number, steps):
    """One case, from its beginning to its end."""
    kind, culprit = case["kind"], RANK in case["ranks"]
    own = kind in ("mismatch", "batches", "link")
    group = dist.new_group(timeout=datetime.timedelta(seconds=PATIENCE)) if own else None
    if case["ranks"][0] == RANK:
        create(f"begun.{number}")
    if own:
        between_ranks(case, number, group)
        wait_for(f"release.{number}")
    elif kind == "slow":
        steps.several(USUAL)
        if case["ranks"][0] == RANK:
            create(f"slow.{number}")
        while not steps.step((case["factor"] - 1) * SECONDS if culprit else 0.0, there(f"release.{number}")):
            pass
    elif kind == "gone":
        wait_for(f"go.{number}")
    elif culprit:
        WAYS[kind](number)


def main():
    torch.set_num_threads(1)
    numbered = list(enumerate(LAUNCH["cases"]))
    for number, case in numbered:
        if case["kind"] == "before" and RANK in case["ranks"]:
            create(f"begun.{number}")
            before_all(number)
    dist.init_process_group("gloo")
    steps = Steps()
    for number, case in numbered:
        if case["kind"] not in ("before", "after"):
            play(case, number, steps)
            steps.several(BETWEEN)
    if RANK == 0:
        create("done")
    dist.destroy_process_group()
    for number, case in numbered:
        if case["kind"] == "after" and RANK in case["ranks"]:
            create(f"begun.{number}")
            after_all(number)


main()
