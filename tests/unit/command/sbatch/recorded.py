# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of recorded scripts need: a machine that has a sandbox."""

from __future__ import annotations

import functools

import pytest

from rankzero.sbatch.recorder import Allocation, NoSandboxError, Script, recorded


@functools.cache
def why_none() -> str:
    """Why this machine has no sandbox; "" if it has one."""
    try:
        recorded(Script("#!/bin/bash\n:\n", "/nowhere"), Allocation(), 1)
    except NoSandboxError as error:
        return str(error)
    return ""


needs_sandbox = pytest.mark.skipif(bool(why_none()), reason=f"no sandbox on this machine: {why_none()}")
