# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sees whether the ranks of a launch meet in torch.distributed, without a change in the program. Used by
rankzero_torch.py; artifact/together.py reads what is left here.

In RUN_DIR/together/ATTEMPT rank 0 leaves `met` once it is in a process group with others. A rank that has loaded torch
and ends in order without such a group leaves a file with its number: a launch that is as it should be has one. A
process that starts ranks itself, or has another library that connects them, leaves none: nothing is known of it.
torch is never imported here. Any Python 3.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MET = "met"
# Torch's own function that makes a group the default one.
MADE = "_update_default_pg"
# Programs that start ranks, and libraries that connect ranks without a process group of torch.
OTHERS = (
    "torch.distributed.run", "torch.distributed.launcher", "accelerate.commands", "deepspeed.launcher", "mpi4py.MPI",
    "horovod.torch", "jax", "ray",
)  # fmt: skip


def listen(module: Any) -> None:
    """Notice the groups that torch makes from now on, and how this process ends. Raises where torch is another one."""
    make, process = getattr(module, MADE), os.getpid()
    sizes: list[int] = []

    def made(group: Any, *arguments: Any, **options: Any) -> Any:
        answer = make(group, *arguments, **options)
        with contextlib.suppress(Exception):
            if group is not None and group.size() > 1:
                if not sizes and os.environ["RANK"] == "0":
                    leave(MET)
                sizes.append(group.size())
        return answer

    def end() -> None:
        with contextlib.suppress(Exception):
            if not sizes and os.getpid() == process and not any(name in sys.modules for name in OTHERS):
                leave(os.environ["RANK"])

    setattr(module, MADE, made)
    atexit.register(end)


def leave(name: str) -> None:
    """Leave an empty file of that name."""
    folder = os.path.join(os.environ["RANKZERO_RUN_DIR"], "together", os.environ["RANKZERO_ATTEMPT"])
    os.makedirs(folder, exist_ok=True)
    os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
