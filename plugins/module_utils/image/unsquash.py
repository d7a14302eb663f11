# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack squashfs files with unsquashfs."""

from __future__ import annotations

import os
import shutil

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children, extraction


def unpack(tool: str, image: str, folder: str, rules: extraction.Rules) -> None:
    """Unpack a squashfs file into the new folder `folder` with unsquashfs, after checking its listing.

    Raises Refused, Damaged and OSError.
    """
    listed = _said([tool, "-quiet", "-lln", "-d", folder, image])
    size, free = os.path.getsize(image), shutil.disk_usage(os.path.dirname(folder)).free
    extraction.check(extraction.of_listing(listed, folder), rules, size, free)
    _said([tool, "-no-progress", "-no-xattrs", "-quiet", "-d", folder, image])


def _said(words: list[str]) -> str:
    done = children.run(words, os.environ)
    if done.returncode:
        raise extraction.Damaged(" ".join(done.stderr.split())[-400:])
    return os.fsdecode(done.out)
