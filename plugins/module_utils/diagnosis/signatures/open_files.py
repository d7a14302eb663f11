# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process may open no further file."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    RAISED,
    Signature,
    raises,
)

SIGNATURE = Signature(
    family="open_files",
    what="a process has too many open files",
    remedy=(
        "Raise the number of files that a process may open (`ulimit -n` in `setup.commands`), or use fewer data loader "
        "workers or `torch.multiprocessing.set_sharing_strategy('file_system')`."
    ),
    look="Look at `ulimit -n` in the job, and at `ls /proc/PID/fd` of a rank while it runs.",
    matches=(
        raises("received 0 items of ancdata|Too many open files", strength=RAISED),
        raises(r"\[Errno 24\]", strength=RAISED + 2),
    ),
    examples=(
        "OSError: [Errno 24] Too many open files: '/data/shard-7.bin'",
        "RuntimeError: received 0 items of ancdata",
    ),
)
