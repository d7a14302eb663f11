# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of a rank that somebody cancels. Usage: cancel_train.py WHAT, of `Cancel` in cancels.py."""

import os
import signal
import subprocess
import sys
import time

WHAT, RANK = sys.argv[1], os.environ["RANK"]


def say(*lines):
    for line in lines:
        print(line, flush=True)


def on_signal(*lines, code=None):
    """Print lines at the signal of a cancellation, and end with a code (None: go on)."""

    def handle(number, _frame):
        say(*lines)
        if code is not None:
            os._exit(code)

    signal.signal(signal.SIGTERM, handle)


def interrupted(_number, _frame):
    raise KeyboardInterrupt


def read_shard():
    time.sleep(900)


def meet():
    """As the other ranks wait for one."""
    time.sleep(900)


if WHAT == "interrupt":
    signal.signal(signal.SIGTERM, interrupted)
elif WHAT == "says":
    on_signal("Received SIGTERM, stopping", code=1)
elif WHAT == "ignores":
    on_signal("SIGTERM ignored: a checkpoint is being saved")
elif WHAT == "torchrun":
    on_signal(
        "W1201 04:00:00.000000 42 torch/distributed/elastic/agent/server/api.py:739] Received Signals.SIGTERM death "
        "signal, shutting down workers",
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3/torch/distributed/elastic/multiprocessing/api.py", line 74, in _terminate',
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 42 got signal: 15",
        code=1,
    )
elif WHAT == "workers":
    on_signal("RuntimeError: DataLoader worker (pid 27) is killed by signal: Terminated.", code=1)
elif WHAT == "peer":
    on_signal(
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:3690, remote process exited or there was a "
        "network error, NCCL version 2.27.3",
        "[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.",
        code=1,
    )  # fmt: skip
elif WHAT == "semaphores":
    on_signal(
        "resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 6 leaked semaphore objects to "
        "clean up at shutdown",
        code=143,
    )  # fmt: skip
with open("going", "w", encoding="ascii"):
    pass
if WHAT == "memory":
    say("WARNING: 91 % of the memory of the host are used")
    held = bytearray(200_000_000)
elif WHAT == "loading":
    say("loading the model")
    time.sleep(900)
elif WHAT == "hang-first":
    read_shard()
for step in range(1, 9000):
    if WHAT == "retries":
        why = "(errno: 111 - Connection refused)"
        say(f"[W socket.cpp:752] The client socket has failed to connect to [node01]:29500 {why}. Retry {step}.")
    else:
        say(f"step {step}/9000 loss 2.5")
    if WHAT == "hang" and step == 20:
        read_shard() if RANK == "1" else subprocess.run(["sleep", "900"], check=False)
    time.sleep(0.3)
