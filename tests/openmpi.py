# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Open MPI: this system's packages, unpacked beside it and run in place."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.unpacked import Unavailable, programs

#: mpirun with what it loads.
PACKAGES = (
    "openmpi-bin", "openmpi-common", "libopenmpi3", "libucx0", "libfabric1", "librdmacm1", "libpsm2-2",
    "libpsm-infinipath1", "ibverbs-providers", "libibverbs1", "libnl-route-3-200", "libnl-3-200",
)  # fmt: skip


def install(folder: Path, inside: str) -> list[str]:
    """Put it into a folder, which the nodes name `inside`; the lines of a shell after which `mpirun` is Open MPI's."""
    root = programs(*PACKAGES).parent
    shutil.copytree(root, folder / "usr", symlinks=True)
    found = sorted((folder / "usr" / "lib").glob("*-linux-gnu/openmpi"))
    if not found:
        raise Unavailable("the packages hold no Open MPI")
    libraries = f"{inside}/usr/lib/{found[0].parent.name}"
    (folder / "usr" / "bin" / "mpirun").unlink(missing_ok=True)
    (folder / "usr" / "bin" / "mpirun").symlink_to("mpirun.openmpi")
    return [
        f"export PATH={inside}/usr/bin:$PATH OPAL_PREFIX={inside}/usr",
        f"export LD_LIBRARY_PATH={libraries}:{libraries}/openmpi/lib",
    ]
