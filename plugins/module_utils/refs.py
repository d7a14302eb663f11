# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what a launch refers to is on the cluster, each kind asked the way that its producer answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import present
from ansible_collections.rankzero.slurm.plugins.module_utils.staging import marks
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.owned import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.publish import bundle_key, read_bundle


def is_present(ref: Mapping[str, str]) -> bool:
    """An environment must be whole and its Python still be there; the others got their name when they were whole."""
    if ref["kind"] == "environment":
        return present(ref["path"]) is not None
    if ref["kind"] == "runtime":
        try:
            return is_own(ref["path"]) and bundle_key(read_bundle(ref["path"])) == ref["key"]
        except OSError:
            return False
    if ref["kind"] == "image":  # of which a runtime needs one file, made with the rest or later
        return os.path.isfile(os.path.join(ref["path"], ref["file"]))
    return os.path.isdir(ref["path"])


def absent(
    refs: Iterable[Mapping[str, str]], state_root: str | None, note: Callable[[str], None], *, check_mode: bool
) -> list[dict[str, str]]:
    """Those of `refs` that are not on the cluster. The others are marked, so that no prune takes them from now on.

    Check mode marks nothing. Raises RankzeroError where a prune hangs.
    """
    missing = []
    for ref in refs:
        there = is_present(ref)
        if there and not check_mode:
            try:
                marks.use(ref["path"], state_root)
            except OSError as error:
                note(
                    f"{ref['kind']}: the use of {ref['path']} cannot be noted there ({error.strerror}): should "
                    "somebody else prune that store, he does not know of this launch"
                )
            # A prune may have been faster than the mark.
            there = is_present(ref)
        if not there:
            missing.append(dict(ref))
    return missing
