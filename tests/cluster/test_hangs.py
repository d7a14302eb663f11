# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that hangs before its first step: the wait names the rank and its line, and so does the card after a cancel.

A job that becomes slow after its first steps: the wait names the rank that makes it so.
"""

from __future__ import annotations

import pytest

from tests.cluster.launching import Site

#: As in torch, by the end of its path and the function's name.
MEETING = """
import time


def init_process_group():
    time.sleep(900)
"""
PROGRAM = """
import os, time
from torch.distributed import distributed_c10d


def read_shard():
    time.sleep(900)


if os.environ["RANK"] == "1":
    read_shard()
distributed_c10d.init_process_group()
"""
#: A collective that ends for a rank when all have called it.
TOGETHER = """
import os, socket, threading, time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PLACE = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def serve(server):
    others = [server.accept()[0] for _rank in range(WORLD)]
    while all(other.recv(1) for other in others):
        for other in others:
            other.sendall(b"1")


if RANK == 0:
    threading.Thread(target=serve, args=(socket.create_server(PLACE),), daemon=True).start()
while True:
    try:
        mine = socket.create_connection(PLACE)
        break
    except OSError:
        time.sleep(0.2)


def all_reduce():
    mine.sendall(b"1")
    mine.recv(1)
"""
#: Steps, which a rank makes four times slower after the twentieth, and an evaluation in between.
SLOW = """
import time
from torch.distributed import distributed_c10d


def augment(step):
    time.sleep(0.9 if step > 20 and distributed_c10d.RANK == 2 else 0)


for step in range(1, 9000):
    time.sleep(0.3)
    augment(step)
    distributed_c10d.all_reduce()
    print(f"step {step}/9000 loss 2.5", flush=True)
"""
#: A bound of waiting, for the slowest machine.
SECONDS = 400


def write_program(site: Site, program: str, distributed: str) -> None:
    package = site.folder / "code" / "torch" / "distributed"
    package.mkdir(parents=True)
    for name, text in (("../__init__.py", ""), ("__init__.py", ""), ("distributed_c10d.py", distributed)):
        (package / name).write_text(text, encoding="utf-8")
    (site.folder / "code" / "train.py").write_text(program, encoding="utf-8")


def test_ranks_that_never_meet_are_named_by_the_wait_and_after_a_cancellation(site: Site) -> None:
    write_program(site, PROGRAM, MEETING)
    job = site.job(["python3", "train.py"], resources={"nodes": 2, "time": "00:20:00"}, launcher={"ranks_per_node": 1})
    play = site.start(job, wait=True)
    site.lab.wait_until(lambda: "rank 1 on" in play.output, SECONDS, "the wait names the rank")
    site.lab.head(["scancel", *site.left()])
    (said,) = [line for line in play.finish().output.splitlines() if "no step yet" in line and "rank 1 on" in line][:1]
    assert "rank 1 on node02 sleeps (work/train.py:7, in read_shard); 1 other rank waits in init_process_group" in said
    assert "stands still" not in said
    card = play.output[play.output.rindex("cause") :]
    assert "the job stood still" in card and "rank 1 on node02" in card
    assert "memory" not in card and "aunch again" not in card


# What is slow is judged in tests/unit/watch/test_slowing.py.
@pytest.mark.more
def test_a_rank_that_becomes_slow_after_twenty_steps_is_named_by_the_wait(site: Site) -> None:
    write_program(site, SLOW, TOGETHER)
    job = site.job(["python3", "train.py"], resources={"nodes": 2, "time": "00:20:00"}, launcher={"ranks_per_node": 2})
    play = site.start(job, wait=True)
    site.lab.wait_until(lambda: "times as long as before" in play.output, SECONDS, "the wait says that it is slow")
    site.lab.head(["scancel", *site.left()])
    output = play.finish().output
    (said,) = [line for line in output.splitlines() if "times as long as before" in line]
    assert "rank 2 on node02 sleeps (work/train.py:7, in augment)" in said
    assert "the others wait in collectives while it works" in said and "stands still" not in output
