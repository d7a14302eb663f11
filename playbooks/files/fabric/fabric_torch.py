# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank of one measurement by torch: fabric_torch.py ARGUMENTS(JSON). The first rank prints a row of JSON a size.

A process of its own: NCCL reads its variables once in a process, and one that hangs takes nothing else with it.
"""

import datetime
import json
import os
import statistics
import sys
import threading
import time

import torch
from fabric_schedule import bus
from torch import distributed

REPEAT_SECONDS = 0.5
MOST = 50
LINGER_SECONDS = 5


class Watch:
    """Ends the process at the time limit, with what is known of the size at hand: it took at least so long."""

    def __init__(self, seconds, speaks, ranks):
        self.size, self.since, self.speaks, self.ranks = 0, time.monotonic(), speaks, ranks
        timer = threading.Timer(seconds, self.over)
        timer.daemon = True
        timer.start()

    def begin(self, size):
        self.size, self.since = size, time.monotonic()

    def over(self):
        took = time.monotonic() - self.since
        if self.speaks:
            say({"size": self.size, "seconds": took, "bus": bus(self.size, took, self.ranks), "cut": True})
        else:
            # Were the others gone before, the first one would fail instead of saying so.
            time.sleep(LINGER_SECONDS)
        os._exit(0)


def say(row):
    print(json.dumps(row), flush=True)


def main(given):
    device = f"cuda:{given['local']}" if given["backend"] == "nccl" else "cpu"
    if device != "cpu":
        torch.cuda.set_device(given["local"])
    distributed.init_process_group(
        given["backend"],
        init_method=given["meet"],
        rank=given["rank"],
        world_size=given["ranks"],
        timeout=datetime.timedelta(seconds=given["seconds"] + 60),
    )

    def timed(numbers):
        start = time.monotonic()
        distributed.all_reduce(numbers)
        if device != "cpu":
            torch.cuda.synchronize()
        return time.monotonic() - start

    timed(torch.zeros(1, device=device))  # connects
    watch = Watch(given["seconds"], given["rank"] == 0, given["ranks"])
    for size in given["sizes"]:
        watch.begin(size)
        numbers = torch.zeros(max(1, size // 4), device=device)
        first = torch.tensor([timed(numbers)], dtype=torch.float64, device=device)
        distributed.all_reduce(first, op=distributed.ReduceOp.MAX)
        repeats = min(MOST, int(REPEAT_SECONDS / max(float(first[0]), 1e-6)))
        times = [timed(numbers) for _repeat in range(repeats)] or [float(first[0])]
        middle = statistics.median(times)
        if given["rank"] == 0:
            say({"size": size, "seconds": middle, "bus": bus(size, middle, given["ranks"]), "cut": False})
    # What torch keeps running must not keep the process.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
