# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Charliecloud: this system's package, unpacked beside it and run in place."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.unpacked import programs


def install(folder: Path, inside: str) -> str:
    """Put `ch-run` into a folder, which the nodes name `inside`; the line of a shell after which it is in PATH."""
    (folder / "bin").mkdir()
    shutil.copy2(programs("charliecloud-runtime") / "ch-run", folder / "bin" / "ch-run")
    return f"export PATH={inside}/bin:$PATH"
