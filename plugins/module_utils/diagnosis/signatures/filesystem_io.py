# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file system failed during a read or write."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="filesystem_io",
    what="a file system failed",
    remedy=(
        "If only one node is affected, exclude it (`resources.exclude`); otherwise ask the site about that file system."
    ),
    look="See whether other ranks and jobs on that file system failed at the same time, or only one node.",
    matches=(
        says(
            # A network adapter has I/O errors as well.
            r"\[Errno 5\]|^(?!.*(?:UCX|ucx|ibv_|verbs|register|rkey)).*Input/output error|"
            r"\[Errno 116\]|Stale file handle|\[Errno 121\]|"
            "Remote I/O error|(?<!handle_cq_error:)Transport endpoint is not connected|Bad file descriptor.*lustre|"
            r"LustreError|\[Errno 107\]|Text file busy|\[Errno 16\] Device or resource busy",
            "[Errno 5]",
            "Input/output error",
            "[Errno 116]",
            "tale file handle",
            "[Errno 121]",
            "Remote I/O error",
            "Transport endpoint",
            "LustreError",
            "[Errno 107]",
            "Text file busy",
            "[Errno 16]",
            strength=CAUSE,
        ),
        raises(
            r"unable to lock file|\[Errno (?:108|110|512)\] .*(?:transport|/)|disk I/O error|"
            r"database is locked|Remote I/O"
        ),
        raises(r"\[Errno 95\]"),
    ),
    examples=(
        "OSError: [Errno 5] Input/output error: '/data/x'",
        "OSError: [Errno 116] Stale file handle",
    ),
    retry=True,
)
