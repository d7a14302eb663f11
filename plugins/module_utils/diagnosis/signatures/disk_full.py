# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A write failed: no space, no quota or no inodes left."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="disk_full",
    what="no space or quota is left on a file system",
    remedy=(
        "Make room, or write elsewhere: `checkpoint.dir`, `env.TMPDIR`, `env.HF_HOME`; `launch_cluster.caches` moves "
        "the caches of tools, also out of a container. Look at `df -h`, `df -i` and the quota of the account on the "
        "node that says it."
    ),
    look="Look at `df -h`, `df -i` and the quota of the folder that the program wrote to.",
    matches=(
        says(
            r"^(?!.*inotify).*(?:\[Errno 28\]|[Nn]o space left on device|Disk quota exceeded|"
            r"[Qq]uota exceeded|low on resource: ephemeral-storage|FilesystemQuotaExceeded|StorageFull|\[Errno 122\])",
            "No space left on device",
            "no space left on device",
            "uota exceeded",
            "on resource: ephemeral",
            "QuotaExceeded",
            "StorageFull",
            "[Errno 28]",
            "[Errno 122]",
            strength=CAUSE + 1,
        ),
        raises(
            r"PytorchStreamWriter failed writing file|unexpected pos \d+ vs \d+|"
            "Not enough free disk space|inline_container.*(?:file write failed|fwrite)"
        ),
        says(r"^tar: .*: Wrote only \d+ of \d+ bytes", "Wrote only"),
        raises(r"\d+ requested and \d+ written|[Nn]ot enough (?:free )?disk space|disk is full"),
    ),
    examples=(
        "The node was low on resource: ephemeral-storage.",
        "OSError: [Errno 28] No space left on device",
        "OSError: [Errno 122] Disk quota exceeded",
        (
            "RuntimeError: [enforce fail at inline_container.cc:664] . PytorchStreamWriter failed writing fi"
            "le data/5: file write failed"
        ),
    ),
)
