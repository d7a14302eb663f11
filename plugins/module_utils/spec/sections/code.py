# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section of the job spec for the program's files. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option


@dataclass(frozen=True)
class Code:
    """Section `code`: the program's files."""

    TEXT_IS: ClassVar[str] = "{{src: {}}}"

    src: str = option(
        t.text(r"[^\0]+", "a path"),
        "Folder with the program. Its git-tracked files, including uncommitted changes, become a snapshot on the "
        "cluster; without git, all its files do.",
        ".",
        key=False,
        example=".",
        also=("workdir", "working_dir"),
    )
    exclude: tuple[str, ...] = option(
        t.listed(t.text(r"[^\0]+", "a pattern")),
        "Patterns of files to exclude from the snapshot.",
        (),
        key=False,
        example=["*.ipynb"],
    )
    include: tuple[str, ...] = option(
        t.listed(t.text(r"[^\0]+", "a pattern")),
        "Patterns of files to include although they belong to launching. Left out by default: job files, pipeline "
        "files, inventories with the group `slurm_login` and the variables next to them, `ansible.cfg`, and fetched "
        "logs. Files that the command, a variable or a set-up line names are always included.",
        (),
        key=False,
        example=["jobs/"],
    )
    in_place: str | None = option(
        t.text(r"/[^\0\n]*", "an absolute path on the cluster"),
        "For a batch script only: the folder in which it works, as it is on the cluster, on storage that the nodes "
        "share. Nothing of it is copied, and the key has its path, not its files: changed files are the same launch.",
        example="/home/ml/gpt",
    )
    writable: bool = option(
        t.BOOLEAN,
        "Give the launch a copy of the code as its working directory, for programs that write beside their own files. "
        "All ranks share it, and an attempt after a requeue finds it as the one before has left it. A batch script has "
        "that anyway.",
        False,
        example=True,
    )
    dirty: str = option(
        t.choice("allow", "refuse"),
        "Uncommitted changes. `refuse`: launch only an exact commit (for GitOps; set it in `launch_cluster` for "
        "all jobs of a cluster). `allow`: record the changes as `code.diff` in the run directory.",
        "allow",
        key=False,
        example="refuse",
    )
