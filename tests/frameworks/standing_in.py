# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for a training framework, where there is neither a GPU nor the framework: what the examples call.

Kept of the real ones: the entry points that the examples' programs use, the form of their loss lines and which rank
prints them, saving to and going on from a folder, and what they do at SIGTERM. Nothing is computed. Each rank first
says what reached it, as one line of JSON.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

SHOWN = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_DEBUG",
    "HF_HOME", "NEMO_HOME", "UV_CACHE_DIR", "OMP_NUM_THREADS", "VIRTUAL_ENV", "IMAGE", "RANKZERO_ATTEMPT",
)  # fmt: skip
SECRETS = ("HF_TOKEN", "GH_TOKEN", "WANDB_API_KEY")


def train(options, steps, folder, line, tracker, printing):
    """Train for `steps` steps. `line(step)`: a loss line; `tracker(folder, step)` keeps where it is, and tells it for
    step None; `printing`: the rank that prints.

    STAND_IN_HOLD: the step at which the first attempt waits for its signal. STAND_IN_BREAKS: the rank that fails; the
    others wait for it. STAND_IN_SAMPLED: the first steps wait until the GPUs of all nodes are watched.
    """
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    env = os.environ
    rank = int(env["RANK"])
    seen: dict[str, Any] = {name: env.get(name) for name in SHOWN}
    seen.update(
        options=options, cwd=os.getcwd(), python=sys.executable, tokens=[len(env.get(name, "")) for name in SECRETS]
    )
    print("[stand-in] " + json.dumps(seen), flush=True)
    print(f"node:1:1 [{env['LOCAL_RANK']}] NCCL INFO NET/Socket : Using [0]{env.get('NCCL_SOCKET_IFNAME')}", flush=True)
    if env.get("STAND_IN_BREAKS") == str(rank):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    folder.mkdir(parents=True, exist_ok=True)
    start = tracker(folder, None)
    meet(rank, int(env["WORLD_SIZE"]))
    if "STAND_IN_SAMPLED" in env:
        await_samples(int(env["WORLD_SIZE"]) // int(env["LOCAL_WORLD_SIZE"]))
    if start:
        print(f"loaded checkpoint at iteration {start}", flush=True)
    hold = int(env.get("STAND_IN_HOLD", "0")) if env["RANKZERO_ATTEMPT"] == "0" else 0
    for step in range(start + 1, steps + 1):
        if rank == printing and step % max(1, steps // 10) == 0:
            print(line(step), flush=True)
        while step == hold and not told:
            time.sleep(0.05)
        if told:
            if rank == 0:
                tracker(folder, step)
            print(f"exiting program after receiving SIGTERM, saved iteration {step}", flush=True)
            raise SystemExit(0)
    if rank == 0:
        tracker(folder, steps)


def meet(rank, world):
    """No rank goes on before all have come, as when a process group is made; here in the run's own folder."""
    place = Path(os.environ["RANKZERO_RUN_DIR"], "work", f"met-{os.environ['RANKZERO_ATTEMPT']}")
    place.mkdir(exist_ok=True)
    (place / str(rank)).touch()
    until = time.monotonic() + 300
    while len(list(place.iterdir())) < world:
        assert time.monotonic() < until, "not all ranks have come"
        time.sleep(0.1)


def await_samples(nodes):
    """The samplers have the lowest priority, and a busy machine may start one after the last step."""
    place = Path(os.environ["RANKZERO_RUN_DIR"], "monitor", os.environ["RANKZERO_ATTEMPT"])
    while len(list(place.glob("*.gpu.csv"))) < nodes:
        time.sleep(0.1)


def hang():
    """STAND_IN_HANGS: never to end after the last step, as a framework whose communicators hang."""
    if "STAND_IN_HANGS" in os.environ:
        import atexit

        atexit.register(time.sleep, 600)


def megatron_line(step):
    loss = 10 / (1 + step / 100)
    return f" iteration {step:8d}/ 1000 | consumed samples: {step} | time per iteration (ms): 1.0 | lm loss: {loss:E} |"


def megatron_tracker(folder, step):
    path = Path(folder) / "latest_checkpointed_iteration.txt"
    if step is None:
        return int(path.read_text(encoding="utf-8")) if path.exists() else 0
    path.with_suffix(".tmp").write_text(str(step), encoding="utf-8")
    return path.with_suffix(".tmp").replace(path)
