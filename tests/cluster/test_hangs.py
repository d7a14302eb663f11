# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that hangs before its first step: the wait names the rank and its line, and so does the card after a cancel."""

from __future__ import annotations

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
#: A bound of waiting, for the slowest machine.
SECONDS = 400


def test_ranks_that_never_meet_are_named_by_the_wait_and_after_a_cancellation(site: Site) -> None:
    package = site.folder / "code" / "torch" / "distributed"
    package.mkdir(parents=True)
    for name, text in (("../__init__.py", ""), ("__init__.py", ""), ("distributed_c10d.py", MEETING)):
        (package / name).write_text(text, encoding="utf-8")
    (site.folder / "code" / "train.py").write_text(PROGRAM, encoding="utf-8")
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
